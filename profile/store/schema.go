package store

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"plimsoll/profile"
)

// RecommendationSchema is the JSON Schema (draft 2020-12) of
// recommendation.json, made from the Go type, so that the two cannot drift.
func RecommendationSchema() []byte {
	return Schema(reflect.TypeFor[Recommendation](), RecommendationSchemaVersion, "plimsoll recommendation",
		"what plimsoll profile-sla recommends; latencies in milliseconds, throughput in tokens/s/GPU")
}

// Schema is the JSON Schema (draft 2020-12) of a file that is made from a struct,
// of which one field, "schema", is the version.
func Schema(t reflect.Type, version int, title, description string) []byte {
	s := schemaOf(t)
	s["$schema"], s["title"], s["description"] = "https://json-schema.org/draft/2020-12/schema", title, description
	properties := s["properties"].(map[string]any)
	properties["schema"] = map[string]any{"const": version}
	b, err := encodeJSON(s)
	if err != nil {
		panic(err) // a schema holds maps, lists and words only
	}
	return b
}

// words lists the values of types that hold one of a few.
func words(t reflect.Type) []string {
	switch t {
	case reflect.TypeFor[profile.Provenance]():
		return []string{profile.Measured.String(), profile.Simulated.String(), profile.Estimated.String(), profile.Published.String()}
	case reflect.TypeFor[profile.Statistic]():
		return []string{string(profile.Mean), string(profile.P50), string(profile.P90), string(profile.P95), string(profile.P99)}
	case reflect.TypeFor[profile.Phase]():
		return []string{string(profile.Prefill), string(profile.Decode), string(Aggregated)}
	case reflect.TypeFor[Mode]():
		return []string{string(Disaggregated), string(Aggregated)}
	default:
		return nil
	}
}

// schemaOf covers what the types of files use: structs, pointers,
// lists, numbers, text, booleans.
func schemaOf(t reflect.Type) map[string]any {
	if w := words(t); w != nil {
		return map[string]any{"type": "string", "enum": w}
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		panic(fmt.Sprintf("no JSON Schema for %v", t)) // a field was added to a file
	}
}

func structSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		properties[name] = schemaOf(f.Type)
		if rest != "omitempty" && rest != "omitzero" {
			required = append(required, name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}
