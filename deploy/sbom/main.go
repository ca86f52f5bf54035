// Command sbom prints what a Go program was built from, as a CycloneDX document:
// the modules with their versions and checksums, the compiler and the settings
// that the program itself carries. It takes the program and its version. The same
// program gives the same document.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	bom, err := document(info, version)
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	e := cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON)
	e.SetPretty(true)
	if err := e.Encode(bom); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// document is the program with all modules that it holds, by name.
func document(info *buildinfo.BuildInfo, version string) (*cdx.BOM, error) {
	root := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: info.Main.Path, Name: info.Main.Path, Version: version, Properties: settings(info)}
	compiler := strings.TrimPrefix(info.GoVersion, "go")
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, BOMRef: "std", Name: "std", Version: compiler, PackageURL: "pkg:golang/std@" + compiler, Scope: cdx.ScopeRequired,
	}}
	needs := []string{"std"}
	for _, d := range info.Deps {
		c, err := component(d)
		if err != nil {
			return nil, err
		}
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(needs)
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &needs}}
	return bom, nil
}

// component is a module, or what replaced it.
func component(m *debug.Module) (cdx.Component, error) {
	for m.Replace != nil {
		m = m.Replace
	}
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url, Scope: cdx.ScopeRequired}
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	if !ok {
		return c, fmt.Errorf("module %s@%s carries no checksum", m.Path, m.Version)
	}
	raw, err := base64.StdEncoding.DecodeString(sum)
	if err != nil {
		return c, errors.Join(fmt.Errorf("module %s@%s: checksum %q", m.Path, m.Version, m.Sum), err)
	}
	// Go's h1: SHA-256 over the sorted list of the files' SHA-256.
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	return c, nil
}

// settings are how the program was built.
func settings(info *buildinfo.BuildInfo) *[]cdx.Property {
	var out []cdx.Property
	for _, s := range info.Settings {
		if s.Value != "" {
			out = append(out, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
		}
	}
	return &out
}
