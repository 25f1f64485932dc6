import type { StubbedName, StubValue } from '../../grading/languages/language.ts'
import { languages } from '../../grading/languages/languages.ts'
import { type Cheat, DOES_NOT_APPLY } from '../../trials/cheats/cheat.ts'
import { cheats } from '../../trials/cheats/cheats.ts'
import { unquotePath } from '../candidates/read-diffs.ts'
import type { ExposedSymbol } from '../lint/render-instruction.ts'

/**
 * A cheat and its consequence for a task on which it succeeds. `weak` is recorded and does not reject the task: tests that
 * load the code cannot prevent such a cheat.
 */
export type GuardedCheat = Cheat & { verdict: 'cheat_passes' | 'leak_in_image' | 'weak' }

/** Exit code of a cheat that found forbidden content. */
export const FOUND_EXIT_CODE = 78

/** Cheats inside the test process, where code and tests are not isolated from each other. */
const IN_TEST_PROCESS = ['equals-everything', 'forged-report']
/** Cheats that use content left in the image. */
const FROM_IMAGE = ['git-history', 'leaked-solution']

/** Lists every cheat that is tried on a finished task, the most effective first. */
export const listGuardedCheats = (task: TaskInterface): GuardedCheat[] => [
  gitArchaeology,
  network,
  ...listNullImplementations(task),
  deleteTests,
  forgeReward,
  // Cheats that alter the answers of a solution are left out, because the solution of a generated task is code.
  ...cheats.filter(({ usesSolution }) => !usesSolution).map((cheat) => ({ ...cheat, verdict: toVerdict(cheat.id) })),
]

function toVerdict(id: string): GuardedCheat['verdict'] {
  if (IN_TEST_PROCESS.includes(id)) return 'weak'
  return FROM_IMAGE.includes(id) ? 'leak_in_image' : 'cheat_passes'
}

const CONFIGURATION = languages.flatMap(({ testConfiguration }) => testConfiguration).join('|')

const deleteTests: GuardedCheat = {
  id: 'delete-tests',
  what: 'All tests of the repository and all configuration files of its test runners are deleted.',
  verdict: 'cheat_passes',
  script: String.raw`git ls-files -z | tr '\0' '\n' |
  grep -E '(^|/)(tests?|specs?|__tests__|testing)/|(^|/)(test_[^/]*|[^/]*(_test|_spec|[.]test|[.]spec|Test|Tests))[.][A-Za-z]+$|(^|/)(${CONFIGURATION})$' |
  while read -r file; do rm -f -- "$file"; done
exit 0`,
}

const NETWORK_PYTHON = `import os, socket, sys
socket.setdefaulttimeout(3)
for host, port in [("github.com", 443), ("example.com", 80), ("1.1.1.1", 443), ("8.8.8.8", 53)]:
    try:
        socket.create_connection((host, port)).close()
        sys.exit(${FOUND_EXIT_CODE})
    except OSError:
        pass
for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
    address = os.environ.get(name, "").rstrip("/").rpartition("/")[2].rpartition("@")[2].rpartition(":")
    try:
        with socket.create_connection((address[0], int(address[2]))) as proxy:
            proxy.sendall(b"CONNECT github.com:443 HTTP/1.1\\r\\nhost: github.com:443\\r\\n\\r\\n")
            if b" 200 " in proxy.recv(100):
                sys.exit(${FOUND_EXIT_CODE})
    except (OSError, ValueError):
        pass`

const network: GuardedCheat = {
  id: 'network',
  what: 'The internet can be reached, where the change itself can be downloaded.',
  verdict: 'cheat_passes',
  script: `python3 - <<'CODE'
${NETWORK_PYTHON}
CODE`,
}

/** Names that a task requires. `source` is the patch of its solution, which shows the files that define them. */
type TaskInterface = { exposed: readonly ExposedSymbol[]; source: string }

const CONSTANTS: readonly StubValue[] = ['nothing', 'true', 'false']

/**
 * Returns cheats that define everything that the instruction names, with constant results. Empty if nothing is named,
 * or if no stub can be written without knowing types (`stubs` of the language is empty).
 */
function listNullImplementations({ exposed, source }: TaskInterface): GuardedCheat[] {
  const names = exposed.filter(({ kind }) => kind === 'name').flatMap(parseName)
  const files = listChangedFiles(source)
  if (names.length === 0) return []
  return CONSTANTS.flatMap((constant) => {
    const text = files.map((path) => renderStubScript(path, names, constant)).join('')
    if (text === '') return []
    return [
      {
        id: `null-implementation-${constant}`,
        what: `Everything that the instruction names exists and returns ${constant}.`,
        verdict: 'cheat_passes' as const,
        script: `${text}exit 0`,
      },
    ]
  })
}

const STUB_NAME = /^[A-Za-z_]\w{0,100}$/

/** Returns the last part of a dotted name. The parts before it may be defined in the file already. */
function parseName({ text, signature }: ExposedSymbol): StubbedName[] {
  const name =
    text
      .split(/[.:#]+/)
      .at(-1)
      ?.replace(/\(.*$/s, '') ?? ''
  return STUB_NAME.test(name) ? [{ name, signature }] : []
}

const SHELL_SAFE_PATH = /^[\w@+./ -]+$/

/** Lists the changed files, without those whose names need quoting in a shell. */
const listChangedFiles = (patch: string): string[] =>
  [...patch.matchAll(/^\+\+\+ (.+?)\t?$/gm)]
    .map(([, printed = '']) => unquotePath(printed).replace(/^b\//, ''))
    .filter((path) => SHELL_SAFE_PATH.test(path) && path !== '/dev/null')

/** Ways to write stubs, by language. */
const STUBS = languages.flatMap(({ stubs }) => stubs)
/** Shell conditions under which a kind of stub suits a file. */
const CONDITIONS = { always: 'true', has_imports: 'is_module', has_none: '! is_module' }

/** Returns shell code that appends stubs to a file, or creates the file. */
function renderStubScript(path: string, names: readonly StubbedName[], constant: StubValue): string {
  const parts = STUBS.filter(({ files }) => files.test(path)).map(({ write, when }) => ({
    text: write(names, constant),
    when,
  }))
  return parts
    .filter(({ text }) => text !== '')
    .map(
      ({ text, when }) => `file='${path}'
is_module() { grep -qE '^(import|export) ' "$file" 2> /dev/null || grep -q '"type": *"module"' package.json 2> /dev/null; }
if ${CONDITIONS[when]}; then mkdir -p "$(dirname "$file")"; cat >> "$file" <<'STUBS'

${text}
STUBS
fi
`,
    )
    .join('')
}

/** Shell loop that keeps overwriting the reward. */
const DAEMON = `mkdir -p /logs/verifier; while :; do echo 1 > /logs/verifier/reward.txt; echo 1 1<> /logs/verifier/reward.txt; sleep 0.05; done`

const FORGE_PYTHON = `import subprocess
subprocess.Popen(["sh", "-c", ${JSON.stringify(DAEMON)}], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
try:
    import pytest
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        report = (yield).get_result()
        report.outcome, report.longrepr = "passed", None
except ImportError:
    pass`

const FORGE_NODE = `const { spawn } = require('node:child_process')
spawn('sh', ['-c', ${JSON.stringify(DAEMON)}], { detached: true, stdio: 'ignore' }).unref()
for (const name of ['test', 'it']) globalThis[name] = Object.assign((title, run) => globalThis.describe?.(title, () => {}), { each: () => () => {} })`

/**
 * Writes the reward itself, starts a process that keeps writing it, and plants every file that a test runner loads by
 * name.
 */
const forgeReward: GuardedCheat = {
  id: 'forge-reward',
  what: 'The reward is written, a process keeps writing it, and files that runners load by themselves turn all results to passed.',
  verdict: 'cheat_passes',
  script: `{
mkdir -p /logs/verifier /logs/artifacts
for folder in /logs/verifier /logs/artifacts .; do echo 1 > "$folder/reward.txt"; echo '{"reward": 1}' > "$folder/reward.json"; done
ln -sfn /logs/verifier /logs/artifacts/verifier
setsid sh -c '${DAEMON}' > /dev/null 2>&1 < /dev/null &
for folder in . $(git ls-files | grep / | sed 's,/[^/]*$,,' | sort -u | head -n 200); do
cat > "$folder/conftest.py" <<'CODE'
${FORGE_PYTHON}
CODE
done
for name in sitecustomize.py usercustomize.py noxfile.py forged_plugin.py; do cp conftest.py "$name"; done
for folder in forged-1.0.dist-info forged.egg-info; do
mkdir "$folder"
for name in METADATA PKG-INFO; do printf 'Metadata-Version: 2.1\\nName: forged\\nVersion: 1.0\\n' > "$folder/$name"; done
printf '[pytest11]\\nforged = forged_plugin\\n' > "$folder/entry_points.txt"
done
cat > forged.cjs <<'CODE'
${FORGE_NODE}
CODE
if [ -e package.json ]; then
for name in jest.setup.js jest.setup.cjs vitest.setup.js test/setup.js .mocharc.cjs; do mkdir -p "$(dirname "$name")"; cp forged.cjs "$name"; done
echo 'module.exports = { setupFiles: ["<rootDir>/forged.cjs"] }' > jest.config.js
echo 'export default { test: { setupFiles: ["./forged.cjs"] } }' > vitest.config.mts
echo '{ "require": ["./forged.cjs"] }' > .mocharc.json
echo 'node-options=--require=./forged.cjs' >> .npmrc
fi
} 2> /dev/null
exit 0`,
}

/** Extensions of source files, as Python strings. */
const SOURCE_EXTENSIONS = languages
  .flatMap(({ sources }) => sources)
  .flatMap(({ extensions }) => extensions.map((each) => `".${each}"`))

/**
 * Looks for a later state of the repository: commits other than HEAD, patches, other clones, and copies of its
 * files elsewhere on the disk, installed or built or in a cache of packages. Copies what it finds over the repository.
 */
const HISTORY_PYTHON = String.raw`import collections, filecmp, os, shutil, subprocess, sys
def git(*words, folder=None):
    where = ["--git-dir", folder] if folder else []
    done = subprocess.run(["git", "-c", "safe.directory=*", *where, *words], capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""
def commits_in(folder):
    lost = [line.split() for line in git("fsck", "--unreachable", "--no-reflogs", folder=folder).splitlines()]
    return set(git("rev-list", "--all", "--reflog", folder=folder).split()) | {words[2] for words in lost if words[1:2] == ["commit"]}
SKIPPED = ("/proc", "/sys", "/dev", "/usr/share/doc", "/logs", os.path.abspath(".git"))
folders_with_files = [(top, names) for top, folders, names in os.walk("/") if not top.startswith(SKIPPED)]
here = os.getcwd()
tracked = [path for path in git("ls-files", "-z").split("\0") if path]
tracked_paths = {os.path.join(here, path) for path in tracked}
found, copied = False, False
head = git("rev-parse", "HEAD").strip()
others = commits_in(None) - {head}
if others or any(os.path.exists(".git/" + name) for name in ("ORIG_HEAD", "FETCH_HEAD")) or git("remote") or git("tag"):
    found = True
    for commit in sorted(others, key=lambda each: int(git("log", "-1", "--format=%ct", each) or 0))[-1:]:
        git("checkout", "-f", commit, "--", ".")
for top, names in folders_with_files:
    if "HEAD" in names and os.path.isdir(top + "/objects"):
        for commit in commits_in(top):
            files = set(git("ls-tree", "-r", "-z", "--name-only", commit, folder=top).split("\0"))
            if len(files & set(tracked)) > len(tracked) / 2 and git("rev-parse", commit + "^{tree}", folder=top) != git("rev-parse", head + "^{tree}"):
                copied |= git("--work-tree", here, "checkout", "-f", commit, "--", ".", folder=top) is not None
for top, names in folders_with_files:
    for name in names:
        path = os.path.join(top, name)
        if name.endswith((".patch", ".diff", ".rej")) and path not in tracked_paths:
            copied |= subprocess.run(["git", "apply", "--whitespace=nowarn", path], capture_output=True).returncode == 0
CODE = (${SOURCE_EXTENSIONS.join(', ')},)
tracked_by_suffix = {"/".join(path.split("/")[-2:]): path for path in tracked if path.endswith(CODE) and "/" in path}
copies = collections.defaultdict(list)
for top, names in folders_with_files:
    for name in names:
        path = os.path.join(top, name)
        target = tracked_by_suffix.get(os.path.basename(top) + "/" + name)
        if target and path not in tracked_paths and os.path.isfile(path) and not filecmp.cmp(path, target, False):
            copies[path[: -len("/".join(target.split("/")[-2:]))]].append((path, target))
for path, target in max(copies.values(), key=len, default=[]):
    shutil.copyfile(path, target)
    copied = True
sys.exit(${FOUND_EXIT_CODE} if found else 0 if copied else ${DOES_NOT_APPLY})`

const gitArchaeology: GuardedCheat = {
  id: 'git-archaeology',
  what: 'A later state of the repository is in the image.',
  verdict: 'leak_in_image',
  script: `python3 - <<'CODE'
${HISTORY_PYTHON}
CODE`,
}
