package cluster

import "encoding/json"

// Text is a file's text in a manifest: in quotes, because the YAML library's blocks
// lose tabs, carriage returns and blank ends of lines.
type Text string

// MarshalYAML is JSON, which YAML reads the same.
func (t Text) MarshalYAML() ([]byte, error) { return json.Marshal(string(t)) }
