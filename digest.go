package ichido

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// A digest hashes a sequence of parts, each with its length before it, so that no two sequences look alike.
type digest struct {
	hash    hash.Hash
	length  [8]byte
	text    []byte // a text on its way into the hash
	scratch []byte // a canonical copy of a body
}

var digests = sync.Pool{New: func() any { return &digest{hash: sha256.New()} }}

// newDigest returns a digest, keyed if there is a secret. It is given back by free.
func newDigest(secret *Secret) *digest {
	if secret != nil {
		return &digest{hash: hmac.New(sha256.New, secret.Key)}
	}
	return digests.Get().(*digest)
}

const keptScratch = 64 << 10 // larger buffers are not kept for the next request

// free gives back a digest without a secret.
func (d *digest) free(secret *Secret) {
	if secret != nil {
		return
	}
	d.hash.Reset()
	if cap(d.scratch) > keptScratch {
		d.scratch = nil
	}
	digests.Put(d)
}

func (d *digest) add(part []byte) {
	d.addNumber(len(part))
	d.hash.Write(part)
}

func (d *digest) addText(part string) {
	d.text = append(d.text[:0], part...)
	d.add(d.text)
}

func (d *digest) addNumber(n int) {
	binary.BigEndian.PutUint64(d.length[:], uint64(n))
	d.hash.Write(d.length[:])
}

// sum returns the stored form of the fingerprint.
func (d *digest) sum(secret *Secret) []byte {
	if secret == nil {
		return d.hash.Sum(append(make([]byte, 0, 1+sha256.Size), plainForm))
	}
	out := make([]byte, 0, 2+len(secret.ID)+sha256.Size)
	out = append(out, keyedForm, byte(len(secret.ID)))
	out = append(out, secret.ID...)
	return d.hash.Sum(out)
}
