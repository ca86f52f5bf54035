package redact

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// byProgram finds the credential in a word of a command line that only the program's
// name tells: curl -u NAME:PASSWORD, sshpass -p PASSWORD, docker login -p PASSWORD.
func byProgram(before []string, w string) []span {
	if len(before) == 0 {
		return nil
	}
	last := before[len(before)-1]
	runs := func(programs ...string) bool {
		return slices.ContainsFunc(before, func(b string) bool { return slices.Contains(programs, path.Base(b)) })
	}
	switch {
	case runs("curl", "wget"):
		flag := userFlag.FindString(w)
		if userFlag.FindString(last) == last && last != "" && !strings.HasSuffix(last, "=") {
			flag = ""
		} else if flag == "" || flag == w {
			return nil
		}
		if i := strings.IndexByte(w[len(flag):], ':'); i >= 0 {
			return whole(w, len(flag)+i+1)
		}
	case path.Base(last) == "sshpass" && strings.HasPrefix(w, "-p") && len(w) > 2:
		return whole(w, 2)
	case last == "-p" && (len(before) > 1 && path.Base(before[len(before)-2]) == "sshpass" || runs("docker", "podman", "nerdctl") && slices.Contains(before, "login")):
		return whole(w, 0)
	}
	return nil
}

var (
	userFlag = regexp.MustCompile(`^(--user=?|--proxy-user=?|-u)`)
	// shellWord is a word of a script, the end of a command, or a line's continuation.
	shellWord = regexp.MustCompile("\\\\\r?\n|[;|&\n()]|\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|[^\\s;|&<>()\"']+")
)

// inScript finds in a shell's script what only the words of its commands tell.
func inScript(s string) []span {
	var out []span
	var words []string
	for _, m := range shellWord.FindAllStringIndex(s, -1) {
		from, to := m[0], m[1]
		w := s[from:to]
		switch {
		case strings.HasPrefix(w, "\\") && strings.HasSuffix(w, "\n"):
			continue
		case strings.ContainsAny(w[:1], ";|&\n()"):
			words = nil
			continue
		case w[0] == '"' || w[0] == '\'':
			from, w = from+1, w[1:len(w)-1]
		}
		found := byProgram(words, w)
		if !looksLikeFlag(w) && moreKeys(words) {
			found = whole(w, 0)
		}
		for _, x := range found {
			if filledIn.FindString(w[x.from:x.to]) != w[x.from:x.to] {
				out = append(out, span{from + x.from, from + x.to})
			}
		}
		words = append(words, w)
	}
	return out
}
