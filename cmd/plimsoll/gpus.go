package main

import (
	"cmp"
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
		Description: "Through NVML, or where that finds none through amd-smi or rocm-smi, within CUDA_VISIBLE_DEVICES (AMD: ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES too). Exit status 1 where there is none of the three, or a GPU does not answer.",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "catalog", Usage: "`FILE` of further GPUs"}},
		Action: func(c *cli.Context) error {
			cat, err := catalog.Load(c.String("catalog"))
			if err != nil {
				return err
			}
			inv, err := localGPUs(c.Context)(cat)
			if err != nil {
				if errors.Is(err, gpu.ErrUnavailable) {
					return field.WithHint(err, "here plimsoll profile-sla profiles the embedded simulated engine")
				}
				return err
			}
			if c.String("format") == "json" {
				err = printJSON(c.App.Writer, inv)
			} else {
				for _, w := range inv.Warnings {
					say(c.App.ErrWriter, "warning", "%s", w)
				}
				_, err = io.WriteString(c.App.Writer, gpuTable(inv))
			}
			if err == nil && inv.LeftOut > 0 {
				err = fmt.Errorf("%s left out: no answer from the driver", engine.Count(inv.LeftOut, "GPU"))
			}
			return err
		},
	}
}

func gpuTable(inv gpu.Inventory) string {
	t := newTable("#", "name", "catalog", "memory", "used", "MIG", "SM MHz", "mem MHz", "NVLink", "throttled", "UUID")
	for _, d := range inv.Devices {
		links := "–"
		if d.NVLinks != nil {
			links = itoa(*d.NVLinks)
		}
		t.row(itoa(d.Index), d.Name, cmp.Or(d.SKU, "–"), memoryOf(d), gib(d.MemoryUsed), cmp.Or(string(d.MIG), "–"),
			clock(d.SMClock, d.SMClockMax), clock(d.MemClock, d.MemClockMax), links, cmp.Or(strings.Join(d.Throttle, ", "), "–"), cmp.Or(d.UUID, "–"))
	}
	head := engine.Count(len(inv.Devices), "GPU") + ", driver " + cmp.Or(inv.Driver, "–")
	if inv.CUDA != "" {
		head += ", CUDA " + inv.CUDA
	}
	return head + "\n" + t.text("")
}

func memoryOf(d gpu.Device) string {
	if d.Unified {
		return gib(d.MemoryTotal) + " unified"
	}
	return gib(d.MemoryTotal)
}

func gib(b int64) string {
	if b == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30))
}

func clock(now, top int) string {
	if now == 0 && top == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d", now, top)
}

// deviceIDs are what CUDA_VISIBLE_DEVICES names the GPUs by.
func deviceIDs(devices []gpu.Device) []string {
	var ids []string
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}
