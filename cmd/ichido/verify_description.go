package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ichido-dev/ichido/conformance"
	"go.yaml.in/yaml/v3"
)

// readDescription returns the API of a preset, or of a file, which may begin with a preset and change it.
func readDescription(name string) (*conformance.API, error) {
	if api, ok := conformance.Preset(name); ok {
		return &api, nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("--api is %q, which is neither a file nor one of the presets %s", name, strings.Join(conformance.Presets, ", "))
	}
	if err != nil {
		return nil, err
	}
	api, err := parseDescription(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return api, nil
}

// A description is an API in a file.
type description struct {
	// Preset is what all that is not there is taken from. "" takes nothing.
	Preset          string `yaml:"preset"`
	conformance.API `yaml:",inline"`
}

func parseDescription(text []byte) (*conformance.API, error) {
	var head struct {
		Preset string `yaml:"preset"`
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	var d description
	if head.Preset != "" {
		if !slices.Contains(conformance.Presets, head.Preset) {
			return nil, fmt.Errorf("preset is %q; it must be one of %s", head.Preset, strings.Join(conformance.Presets, ", "))
		}
		d.API, _ = conformance.Preset(head.Preset)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true) // a member with a typing error would change nothing, unseen
	if err := decoder.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return &d.API, nil
}
