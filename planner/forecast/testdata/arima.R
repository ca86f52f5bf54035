# Writes arima.json: what R's forecast::auto.arima selects for windows of 50 of
# several series, with the AICc and forecasts, KPSS's differencing, and the exact
# likelihoods of stats::arima with gaps. Also the series themselves.
# Written with R 4.2.2, forecast 8.20.
#
# usage: Rscript arima.R   (in this folder)
suppressMessages({library(forecast); library(jsonlite)})

read <- function(name, column) read.csv(name)[[column]]
gaps <- function(x, at) { x[at] <- NA; x }
mid <- read("m-mid.csv", "rate_rps")
isl <- read("m-mid.csv", "isl")
series <- list(
  nile = as.numeric(Nile)[1:50], lh = as.numeric(lh), huron = as.numeric(LakeHuron)[1:50],
  www = as.numeric(WWWusage)[1:50], lynx = as.numeric(lynx)[1:50], discoveries = as.numeric(discoveries)[1:50],
  mid1 = mid[1:50], mid200 = mid[201:250], mid700 = mid[701:750], isl1 = isl[1:50],
  image = read("mm-image.csv", "rate_rps")[41:90], azure = read("azure-conv.csv", "rate_rps")[1:50],
  nile_gaps = gaps(as.numeric(Nile)[1:50], c(7, 8, 20, 33, 34, 35)),
  www_gaps = gaps(as.numeric(WWWusage)[1:50], c(12, 25, 26, 41)),
  short = as.numeric(Nile)[1:12])

selected <- lapply(series, function(x) {
  m <- auto.arima(x, seasonal = FALSE, allowmean = TRUE)
  o <- arimaorder(m)
  f <- forecast(m, h = 5)
  list(values = x, p = o[[1]], d = o[[2]], q = o[[3]], constant = any(c("intercept", "drift") %in% names(coef(m))),
       differences = ndiffs(x), kpss = urca::ur.kpss(na.omit(x), type = "mu", use.lag = trunc(3 * sqrt(length(na.omit(x))) / 13))@teststat,
       aicc = m$aicc, forecast = as.numeric(f$mean))
})

# Likelihoods of given coefficients: the variance, and the mean or drift, are of
# most likelihood.
given <- function(name, order, coefs, constant) {
  x <- series[[name]]
  xreg <- if (!constant) NULL else if (order[2] == 0) rep(1, length(x)) else seq_along(x) - 1
  m <- arima(x, order = order, xreg = xreg, include.mean = FALSE, method = "ML", transform.pars = FALSE,
             fixed = c(coefs, if (constant) NA), optim.control = list(reltol = 1e-14))
  n <- if (constant) if (order[2] == 0) rep(1, 5) else length(x) - 1 + 1:5 else NULL
  p <- if (constant) predict(m, 5, newxreg = n) else predict(m, 5)
  list(series = name, p = order[1], d = order[2], q = order[3], constant = constant, coefs = I(coefs),
       loglik = m$loglik, sigma2 = m$sigma2, forecast = as.numeric(p$pred))
}
likelihoods <- list(
  given("nile", c(1, 0, 0), 0.5, TRUE), given("nile", c(0, 1, 1), -0.7, FALSE), given("nile", c(1, 1, 1), c(0.25, -0.87), TRUE),
  given("lh", c(3, 0, 0), c(0.65, -0.06, -0.23), TRUE), given("lh", c(2, 0, 2), c(1.1, -0.4, -0.5, 0.2), TRUE),
  given("www", c(1, 1, 1), c(0.65, 0.53), FALSE), given("www", c(2, 2, 0), c(0.25, -0.43), FALSE),
  given("www", c(3, 1, 3), c(0.3, -0.2, 0.1, 0.2, 0.1, -0.15), TRUE),
  given("mid1", c(0, 1, 1), -0.3, TRUE), given("nile_gaps", c(1, 0, 1), c(0.6, -0.2), TRUE),
  given("nile_gaps", c(0, 1, 1), -0.7, FALSE), given("nile_gaps", c(2, 1, 0), c(-0.4, -0.2), TRUE),
  given("www_gaps", c(1, 1, 1), c(0.65, 0.53), TRUE), given("www_gaps", c(0, 2, 2), c(0.2, 0.1), FALSE))

write_json(list(selected = selected, likelihoods = likelihoods), "arima.json", digits = NA, auto_unbox = TRUE, na = "null", pretty = TRUE)
