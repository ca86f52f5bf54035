package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/gpu"
)

func gpusCommand() *cli.Command {
	return &cli.Command{
		Name: "gpus", Usage: "list this machine's GPUs",
		Description: "Through NVML, within CUDA_VISIBLE_DEVICES. Exit status 1 where NVML is not to be had.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "catalog", Usage: "`FILE` of further GPUs"}},
		Action: func(c *cli.Context) error {
			cat, err := catalog.Load(c.String("catalog"))
			if err != nil {
				return err
			}
			inv, err := localGPUs(cat)
			if err != nil {
				if errors.Is(err, gpu.ErrUnavailable) {
					return field.WithHint(err, "here plimsoll profile-sla profiles the embedded simulated engine")
				}
				return err
			}
			if c.String("format") == "json" {
				return printJSON(c.App.Writer, inv)
			}
			for _, w := range inv.Warnings {
				say(c.App.ErrWriter, "warning", "%s", w)
			}
			_, err = io.WriteString(c.App.Writer, gpuTable(inv))
			return err
		},
	}
}

func gpuTable(inv gpu.Inventory) string {
	t := newTable("#", "name", "catalog", "memory", "used", "MIG", "SM MHz", "mem MHz", "NVLink", "throttled", "UUID")
	for _, d := range inv.Devices {
		t.row(itoa(d.Index), d.Name, dash(d.SKU), gib(d.MemoryTotal), gib(d.MemoryUsed), dash(string(d.MIG)),
			clock(d.SMClock, d.SMClockMax), clock(d.MemClock, d.MemClockMax), itoa(d.NVLinks), dash(strings.Join(d.Throttle, ", ")), d.UUID)
	}
	return fmt.Sprintf("%s, driver %s, CUDA %s\n", engine.Count(len(inv.Devices), "GPU"), inv.Driver, inv.CUDA) + t.text("")
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func gib(b int64) string { return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30)) }

func clock(now, top int) string { return fmt.Sprintf("%d/%d", now, top) }
