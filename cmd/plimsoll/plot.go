package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity/prices"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

func plotCommand() *cli.Command {
	return &cli.Command{
		Name: "plot", Usage: "draw a profile's pictures again, from its files alone", ArgsUsage: "DIR",
		Description: "   plimsoll plot profiling_results",
		Action: func(c *cli.Context) error {
			dir := c.Args().First()
			if dir == "" {
				return field.Errorf("plot needs a folder").Hint("plimsoll plot profiling_results")
			}
			number, err := plotFolder(c, dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "%s pictures in %s, as PNG and SVG\n", number, dir)
			return err
		},
	}
}

// plotFolder draws what a folder holds, and says how many pictures that are.
func plotFolder(c *cli.Context, dir string) (number string, err error) {
	p, err := readProfiled(dir, prices.Given{})
	if err != nil {
		return "", err
	}
	p.sayImplausible(c)
	if p.rec.Mode == store.Aggregated {
		return "two", drawAll(dir, p.run, p.rec, profile.PrefillSurface{}, profile.DecodeSurface{}, profile.BatchedPrefill{})
	}
	batched, err := store.LoadBatched(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", noProfile(dir, err)
	}
	return "six", drawAll(dir, p.run, p.rec, p.page.Prefill, p.page.Decode, batched)
}
