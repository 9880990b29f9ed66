package ichido

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A formField is one field of a form or a query: name and value, and for a part of multipart/form-data what else
// tells it apart.
type formField struct {
	name  string
	value string
	kind  string // of a part: its file name and content type
}

// addForm adds fields. Only the order of fields of one name matters.
func (d *digest) addForm(fields []formField) {
	if len(fields) > 1 {
		slices.SortStableFunc(fields, func(a, b formField) int { return strings.Compare(a.name, b.name) })
	}
	d.addNumber(len(fields))
	for _, f := range fields {
		d.addText(f.name)
		d.addText(f.value)
		d.addText(f.kind)
	}
}

// parseForm splits a query into its fields. What cannot be decoded counts as it stands.
func parseForm(query string) []formField {
	if query == "" {
		return nil
	}
	fields := make([]formField, 0, 1+strings.Count(query, "&"))
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		f, err := parsePair(pair)
		if err != nil {
			f = formField{name: pair, kind: "undecodable"}
		}
		fields = append(fields, f)
	}
	return fields
}

// parseFormStrictly splits a body into its fields, and reports whether all of them could be decoded.
func parseFormStrictly(body string) ([]formField, bool) {
	var fields []formField
	for pair := range strings.SplitSeq(body, "&") {
		if pair == "" {
			continue
		}
		f, err := parsePair(pair)
		if err != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, true
}

func parsePair(pair string) (f formField, err error) {
	name, value, hasValue := strings.Cut(pair, "=")
	var err2 error
	f.name, err = url.QueryUnescape(name)
	f.value, err2 = url.QueryUnescape(value)
	if !hasValue {
		f.kind = "no value"
	}
	return f, errors.Join(err, err2)
}

// parseMultipart returns the parts of a multipart/form-data body (RFC 7578), each with the digest of its content, and
// reports whether the body was well-formed to its end.
func parseMultipart(body []byte, boundary string) ([]formField, bool) {
	if boundary == "" {
		return nil, false
	}
	var fields []formField
	content := sha256.New()
	for r := multipart.NewReader(bytes.NewReader(body), boundary); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return fields, true
		}
		if err != nil {
			return nil, false
		}
		disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil || disposition != "form-data" {
			return nil, false
		}
		content.Reset()
		if _, err := io.Copy(content, part); err != nil {
			return nil, false
		}
		file, isFile := params["filename"]
		kind := part.Header.Get("Content-Type") + "\n" + part.Header.Get("Content-Transfer-Encoding")
		if isFile {
			kind += "\n" + file
		}
		fields = append(fields, formField{params["name"], string(content.Sum(nil)), kind})
	}
}

// parsedForm returns the fields of a form that was parsed before.
func parsedForm(r *http.Request) ([]formField, error) {
	var fields []formField
	for name, values := range r.PostForm {
		for _, value := range values {
			fields = append(fields, formField{name: name, value: value})
		}
	}
	if r.MultipartForm == nil {
		return fields, nil
	}
	content := sha256.New()
	for name, files := range r.MultipartForm.File {
		for _, header := range files {
			file, err := header.Open()
			if err != nil {
				return nil, err
			}
			content.Reset()
			_, err = io.Copy(content, file)
			_ = file.Close() // opened to read
			if err != nil {
				return nil, err
			}
			fields = append(fields, formField{name, string(content.Sum(nil)), header.Header.Get("Content-Type") + "\n" + header.Filename})
		}
	}
	return fields, nil
}
