package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

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
				return usagef("plot needs a folder").hint("plimsoll plot profiling_results")
			}
			number, err := plotFolder(dir)
			if err != nil {
				if errors.Is(err, os.ErrNotExist) {
					return usagef("%s holds no finished profile: %v", dir, err)
				}
				return err
			}
			_, err = fmt.Fprintf(c.App.Writer, "%s pictures in %s, as PNG and SVG\n", number, dir)
			return err
		},
	}
}

// plotFolder draws what a folder holds, and says how many pictures that are.
func plotFolder(dir string) (number string, err error) {
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		return "", err
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		return "", err
	}
	if rec.Mode == store.Aggregated {
		return "two", drawAll(dir, run, rec, profile.PrefillSurface{}, profile.DecodeSurface{}, profile.BatchedPrefill{})
	}
	weakest := profile.Published
	ps, err := store.LoadPrefill(dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return "", err
	}
	ds, err := store.LoadDecode(dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return "", err
	}
	batched, err := store.LoadBatched(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return "six", drawAll(dir, run, rec, ps, ds, batched)
}
