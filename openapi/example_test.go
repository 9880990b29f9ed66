package openapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
	"github.com/ichido-dev/ichido/openapi"
)

func ExampleDecorate() {
	once, err := ichido.New(memstore.New(nil), ichido.Shared, &ichido.Config{KeyFormat: ichido.UUIDKeys})
	if err != nil {
		panic(err)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(`{
		"openapi": "3.1.0",
		"info": {"title": "Office", "version": "1"},
		"paths": {"/reservations": {"post": {"responses": {"201": {"description": "Registered"}}}}}
	}`), &doc); err != nil {
		panic(err)
	}
	if err := openapi.Decorate(doc, once.KeyPolicy(), "POST", "/reservations"); err != nil {
		panic(err)
	}
	post := doc["paths"].(map[string]any)["/reservations"].(map[string]any)["post"].(map[string]any)
	out, err := json.MarshalIndent(post["parameters"], "", "  ")
	if err != nil {
		panic(err)
	}
	fmt.Println(string(out))
	for _, status := range slices.Sorted(maps.Keys(post["responses"].(map[string]any))) {
		fmt.Print(status, " ")
	}
	// Output:
	// [
	//   {
	//     "$ref": "#/components/parameters/IdempotencyKey"
	//   }
	// ]
	// 201 400 403 409 413 422 500 503
}
