import { undoneSolution } from './undone-solution.ts'

/**
 * Shell function that prints a file with all its lines as comments. Python keeps its functions and classes, without their
 * bodies. Returns false for files that cannot have comments.
 */
const COMMENT_OUT = String.raw`
lines() { sed -e '1 { /^#!/b' -e '}' -e "s|^|$1|" "$2"; }
comment_out() {
  case ${'$'}{1##*/} in
    *.py) sed -E -e '1 { /^#!/b' -e '}' -e '/^ *(async +)?(def|class) .*:[[:space:]]*(#.*)?$/ {' -e 's/^( *)(.*)$/\1\2\n\1    pass/' -e b -e '}' -e 's/^( *)(.*)$/\1# \2/' "$1" ;;
    *.js | *.ts | *.jsx | *.tsx | *.mjs | *.cjs | *.c | *.h | *.cc | *.cpp | *.cxx | *.hpp | *.go | *.rs | *.java | *.kt | *.kts | *.scala | *.swift | *.php | *.cs | *.dart | *.proto | *.groovy | *.gradle) lines '// ' "$1" ;;
    *.sql | *.lua | *.hs) lines '-- ' "$1" ;;
    *.html | *.htm | *.xml | *.svg | *.vue) echo '<!--'; cat "$1"; echo '-->' ;;
    *.css | *.scss | *.less) echo '/*'; cat "$1"; echo '*/' ;;
    *.tex | *.erl) lines '% ' "$1" ;;
    *.sh | *.bash | *.rb | *.pl | *.pm | *.yaml | *.yml | *.toml | *.conf | *.cfg | *.ini | *.env | *.properties | *.tf | *.r | *.R | *.ex | *.exs | *.jl | *.mk | *.cmake | *.service | *.timer | *ockerfile* | *akefile* | .*ignore) lines '# ' "$1" ;;
    *) head -c 2 "$1" | grep -q '#!' && lines '# ' "$1" ;;
  esac
}
`

export const commentedSolution = undoneSolution(
  {
    id: 'commented-solution',
    what: 'The code and settings of the solution are comments, for tests that only search the text of files.',
  },
  `${COMMENT_OUT}
commented=$(mktemp)
changed=
for file in $texts; do
  comment_out "$right$file" > "$commented" && changed=1 && put "$file" < "$commented"
done 2> /dev/null
[ -n "$changed" ] || leave
# Other files that the solution creates are there, and empty.
for file in $files; do [ -e "$file" ] || { mkdir -p "$(dirname "$file")" && : > "$file"; }; done
exit 0`,
)
