package redact

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// byProgram finds the credential in a word of a command line that only the words before
// it tell: -u NAME:PASSWORD, sshpass -p PASSWORD, docker login -p PASSWORD.
func byProgram(before []string, w string) []span {
	if len(before) == 0 {
		return nil
	}
	last := before[len(before)-1]
	name, _, joined := strings.Cut(w, "=")
	switch {
	case userFlag.MatchString(last):
		return pair(before, last, w, 0)
	case joined && userFlag.MatchString(name):
		return pair(before, name, w, len(name)+1)
	case strings.HasPrefix(w, "-u") && runs(before, clients):
		return pair(before, "-u", w, len("-u"))
	case path.Base(last) == "sshpass" && strings.HasPrefix(w, "-p") && len(w) > 2:
		return whole(w, 2)
	case last == "-p" && (len(before) > 1 && path.Base(before[len(before)-2]) == "sshpass" || runs(before, containers) && slices.Contains(before, "login")):
		return whole(w, 0)
	}
	return nil
}

// pair is the password in NAME:PASSWORD, the value of a flag at w[at:]. Not every program
// means that by -u and --user: it may be UID:GID, HOST:PORT or a URL.
func pair(before []string, flag, w string, at int) []span {
	_, password, ok := strings.Cut(w[at:], ":")
	address := port.MatchString(password) || digits.MatchString(password)
	switch {
	case !ok:
		return nil
	case runs(before, clients):
	case flag == "--auth" && !strings.HasPrefix(password, "//"):
	case looksLikeFlag(w[at:]) || address || runs(before, containers):
		return nil
	}
	return whole(w, len(w)-len(password))
}

// runs reports whether one of the words is one of the programs.
func runs(words, programs []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(programs, path.Base(w)) })
}

var (
	clients = []string{"curl", "wget"} // every -u is a user of theirs
	// containers name a user and a group, or a user of another file.
	containers = []string{"docker", "docker-compose", "podman", "nerdctl", "buildah", "kubectl", "helm"}
	userFlag   = regexp.MustCompile(`^(--user|--proxy-user|--auth|-u)$`)
	// shellWord is a word of a script, the end of a command, or a line's continuation.
	shellWord = regexp.MustCompile("\\\\\r?\n|[;|&\n()]|\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*'|[^\\s;|&<>()\"']+")
)

// inScript finds in a shell's script what only the words of its commands tell. Text is a
// script, too, whose prose is no list of keys.
func inScript(s string, prose bool) []span {
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
		case w == ",": // of a list in JSON
			continue
		case w[0] == '"' || w[0] == '\'':
			from, w = from+1, w[1:len(w)-1]
			if strings.ContainsAny(w, " \t\n") { // a script in a script, or what stands between two apostrophes
				for _, x := range inScript(w, prose) {
					out = append(out, span{from + x.from, from + x.to})
				}
			}
		}
		found := byProgram(words, w)
		if !prose && !looksLikeFlag(w) && moreKeys(words) {
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
