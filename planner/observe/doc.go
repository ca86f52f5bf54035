// Package observe reads from metrics what a deployment did. Two sources give the
// figures of one interval to a planner: Live asks a Prometheus server, Engines
// scrapes engines and frontends itself. Both look for the same Names and make of
// them a planner.Observation, in which a figure that was not seen whole is missing
// and Problems says why: no metric, no two samples, samples too old, a percentile
// above the last bucket, an endpoint that did not answer.
//
// A review of what was takes the server's URL (Dial), which metrics to look for and
// of which model (Find), and a range of time; it gives the traffic that came
// (History.Traffic), with what it is not known better than: the bounds of the
// histogram bucket that a percentile lies in, windows without samples.
//
// What is missing stays missing: a window without samples is a gap and no zero, a
// metric that the server lacks is NaN, and no answer is an error. Means and
// percentiles are of all requests of all series together, never means over series.
// It refuses a model that the server does not know, by the names of those that it
// does, ranges that it could not answer, and answers that are no numbers.
//
// Counters are read by PromQL's increase(), which knows a counter that began again
// at 0. It extrapolates from the samples to a window's ends, by half a scrape at most,
// and so makes a window that is scraped in part look like a load that fell. Live
// therefore asks for the samples of requests themselves: it reads counters from the first
// scrape in the window to the last, and brings that to the window. A target that
// was not known before counts from its start. All figures are missing where the first or
// the last scrape is more than 1.5 intervals from its end of the window (the last one 15 s
// more, since samples may be ingested late), or where targets that went or are not there may
// have had more than a tenth of the requests. Means of gauges are missing too where no
// scrape came for 2.5 intervals in between: a counter rises over such a gap by all that
// came, and a gauge says nothing of it. A target that Prometheus no longer lists (series up)
// no longer serves. Live looks further back than
// the interval where that has fewer than four scrapes, or begins in a gap, and takes the
// interval's share.
//
// A sum over some of a role's engines is missing too: engines that the target has had
// ready for long enough to be scraped are counted.
package observe
