package api

import (
	_ "embed"
	"net/http"
)

// SchemaPath is where a collector serves the schema.
const SchemaPath = "/schema/query.proto"

//go:embed query.proto
var schema []byte

// Schema serves query.proto, for programs in other languages.
func Schema() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the schema can only be read", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(schema)
	})
}
