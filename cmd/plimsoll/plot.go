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
			if err := plotFolder(dir); err != nil {
				if errors.Is(err, os.ErrNotExist) {
					return usagef("%s holds no finished profile: %v", dir, err)
				}
				return err
			}
			_, err := fmt.Fprintf(c.App.Writer, "six pictures in %s, as PNG and SVG\n", dir)
			return err
		},
	}
}

func plotFolder(dir string) error {
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		return err
	}
	run, err := store.ReadRun(dir)
	if err != nil {
		return err
	}
	weakest := profile.Published
	ps, err := store.LoadPrefill(dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	ds, err := store.LoadDecode(dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	return drawAll(dir, run, rec, ps, ds)
}
