/**
 * Shell code that writes the reward, then kills every process of the verifier. There is no race, because the tests wait
 * for it. A test script that runs as the first process cannot be killed from inside; its limit of open files is lowered
 * instead. The search paths are reset first, so that no planted program or library is used. The code contains no quotes,
 * dollar signs or backslashes, so that it can be embedded in every language and file format.
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
 * Shell code that creates the program `.take-over` and its variants for interpreters in the working directory, and stores
 * the path of the program in `$win`. Cheats that change settings point them to these files.
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
