// Package tune searches settings of a scaling policy. It takes parameters with their
// ranges and a function that replays settings with seeds on one part of a load; it
// gives the settings that cost least among those that hold the target, or the
// default ones. It knows nothing of policies and runs nothing by itself: a batch of
// trials goes out, their figures come back. It reads no clock, and the same options
// and figures give the same answer.
//
// # What is better
//
// Every setting is replayed with the same seeds, so that two are compared by their
// differences seed by seed, with the 95 % interval of the mean by Student's t
// (Compare). A setting holds the target where its attainment, less half of its
// interval, does. Those that hold it are in the order of their cost; where none
// holds it, all are in the order of their attainment. Settings that differ from the
// default must pay for it by more than their interval: what is as good as the
// default is the default.
//
// # The search
//
// A low-discrepancy design over all ranges at once (scrambled Halton points: Owen,
// "A randomized Halton algorithm in R", arXiv:1706.02808, 2017), and successive
// halving over seeds (Karnin, Koren, Somekh, "Almost optimal exploration in
// multi-armed bandits", ICML 2013; Jamieson, Talwalkar, "Non-stochastic best arm
// identification and hyperparameter optimization", AISTATS 2016): all points are
// replayed with one seed, the better half with two, their better half with four,
// until the last have all seeds. At last each parameter of the winner is put back
// to its default, one after the other, and stays there where that costs nothing that
// is more than its interval.
//
// A search along one coordinate after another explains itself better, but a replay's
// figures are steps: replicas are whole and a target is held or not, so that often
// no single parameter moves anything while two together do. A design also goes
// through all processors at once, and a budget ends it anywhere.
package tune
