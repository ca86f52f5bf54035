package main

import "fmt"

// study is everything that is worked out from the rows.
type study struct {
	results []result // the default fit first
	within  []withinResult
	h200    []profileResult
	chosen  []pickResult
	unlike  []covered
}

func studyOf(rows []row) (study, error) {
	var s study
	var err error
	if s.results, err = fitAll(rows); err != nil {
		return s, err
	}
	if s.within, err = withinFamily(s.results); err != nil {
		return s, fmt.Errorf("calibrating within families: %w", err)
	}
	if s.h200, err = onProfile(rows, s.results); err != nil {
		return s, fmt.Errorf("predicting the H200 profile: %w", err)
	}
	if s.chosen, err = picks(rows, s.results); err != nil {
		return s, fmt.Errorf("choosing configurations: %w", err)
	}
	if s.unlike, err = coverage(rows, s.results); err != nil {
		return s, fmt.Errorf("checking stated errors: %w", err)
	}
	return s, nil
}
