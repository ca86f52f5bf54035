package main

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

func modelOf(t *testing.T, c engine.Config) latency.Model {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	model, err := cat.Model(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := cat.GPU(c.GPU)
	if err != nil {
		t.Fatal(err)
	}
	c.Limits = latency.Limits(model, gpu, c)
	m, err := latency.New(model, gpu, c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
