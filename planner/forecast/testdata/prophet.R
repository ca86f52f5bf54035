# Writes prophet.json: the trend, seasons and forecasts that Prophet (MAP) fits
# with its defaults. Written with R 4.2.2, prophet 1.0, rstan's optimizer.
#
# usage: Rscript prophet.R   (in this folder)
suppressMessages({library(prophet); library(jsonlite)})

read <- function(name, column) read.csv(name)[[column]]
mid <- read("m-mid.csv", "rate_rps")
cases <- list(
  nile = list(values = as.numeric(Nile)[1:50], interval = 180), www = list(values = as.numeric(WWWusage)[1:50], interval = 180),
  ramp = list(values = c(seq(10, 100, length.out = 30), seq(100, 40, length.out = 20)) + sin(1:50), interval = 180),
  short = list(values = as.numeric(Nile)[1:6], interval = 180),
  gaps = list(values = replace(as.numeric(Nile)[1:50], c(7, 8, 20, 33, 34, 35), NA), interval = 180),
  mid50 = list(values = mid[201:250], interval = 600),
  daily = list(values = mid[1:432], interval = 600),
  weekly = list(values = rep_len(mid[seq(1, 2016, by = 6)], 384), interval = 3600))

# The negative logarithm of the posterior at the parameters found, less constants.
cost <- function(m, values, fitted) {
  p <- m$params
  sigma <- as.numeric(p$sigma_obs)
  e <- ((values - fitted) / m$y.scale)[!is.na(values)]
  length(e) * log(sigma) + sum(e^2) / (2 * sigma^2) + sum(abs(p$delta)) / 0.05 + (p$k^2 + p$m^2) / 50 + sum(p$beta^2) / 200 + 2 * sigma^2
}
fits <- lapply(cases, function(c) {
  n <- length(c$values)
  ds <- as.POSIXct("2024-01-01", tz = "UTC") + (0:(n + 4)) * c$interval
  set.seed(1)
  m <- suppressMessages(prophet(data.frame(ds = ds[1:n], y = c$values), iter = 20000, tol_rel_obj = 1, tol_rel_grad = 1, tol_obj = 1e-14, tol_param = 1e-12))
  f <- predict(m, data.frame(ds = ds))
  list(values = c$values, interval_s = c$interval, seasons = I(as.character(names(m$seasonalities))), changes = length(m$changepoints),
       cost = as.numeric(cost(m, c$values, f$yhat[1:n])),
       fitted = f$yhat[1:n], forecast = f$yhat[n + 1:5], sigma = as.numeric(m$params$sigma_obs) * m$y.scale)
})
write_json(fits, "prophet.json", digits = 10, auto_unbox = TRUE, na = "null")
