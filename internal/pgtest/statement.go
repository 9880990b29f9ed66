package pgtest

import "strings"

// isCommit reports whether the text commits a transaction. A simple query may hold several statements;
// they are told apart at semicolons without regard to quotes, so the literal 'a; commit; b' counts too.
func isCommit(sql string) bool {
	for statement := range strings.SplitSeq(sql, ";") {
		words := strings.Fields(strings.ToLower(skipComments(statement)))
		if len(words) == 0 || (words[0] != "commit" && words[0] != "end") {
			continue
		}
		if onlyNoise(words[1:]) {
			return true
		}
	}
	return false
}

// onlyNoise keeps COMMIT PREPARED out, which commits another transaction than the session's own.
func onlyNoise(words []string) bool {
	for _, word := range words {
		switch word {
		case "work", "transaction", "and", "no", "chain":
		default:
			return false
		}
	}
	return true
}

// skipComments removes comments before and after the words: tools put the caller's name there.
func skipComments(sql string) string {
	var out strings.Builder
	for {
		block, line := strings.Index(sql, "/*"), strings.Index(sql, "--")
		var start int
		var end string
		switch {
		case block >= 0 && (line < 0 || block < line):
			start, end = block, "*/"
		case line >= 0:
			start, end = line, "\n"
		default:
			out.WriteString(sql)
			return out.String()
		}
		out.WriteString(sql[:start] + " ")
		_, rest, found := strings.Cut(sql[start+2:], end)
		if !found {
			return out.String()
		}
		sql = rest
	}
}
