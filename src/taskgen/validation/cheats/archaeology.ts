import { DOES_NOT_APPLY } from '../../../trials/cheats/cheat.ts'
import { FOUND, type GuardedCheat } from './guarded-cheat.ts'

/**
 * Looks for a later state of the repository: commits besides the one there is, patches, other clones, and copies of its
 * files elsewhere on the disk, installed or built or in a cache of packages. What it finds it lays over the repository.
 */
const PYTHON = String.raw`import collections, filecmp, os, shutil, subprocess, sys
def git(*words, folder=None):
    where = ["--git-dir", folder] if folder else []
    done = subprocess.run(["git", "-c", "safe.directory=*", *where, *words], capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else ""
def commits_in(folder):
    lost = [line.split() for line in git("fsck", "--unreachable", "--no-reflogs", folder=folder).splitlines()]
    return set(git("rev-list", "--all", "--reflog", folder=folder).split()) | {words[2] for words in lost if words[1:2] == ["commit"]}
OUT = ("/proc", "/sys", "/dev", "/usr/share/doc", "/logs", os.path.abspath(".git"))
places = [(top, names) for top, folders, names in os.walk("/") if not top.startswith(OUT)]
here = os.getcwd()
tracked = [path for path in git("ls-files", "-z").split("\0") if path]
known = {os.path.join(here, path) for path in tracked}
found, laid = False, False
old = git("rev-parse", "HEAD").strip()
others = commits_in(None) - {old}
if others or any(os.path.exists(".git/" + name) for name in ("ORIG_HEAD", "FETCH_HEAD")) or git("remote") or git("tag"):
    found = True
    for commit in sorted(others, key=lambda each: int(git("log", "-1", "--format=%ct", each) or 0))[-1:]:
        git("checkout", "-f", commit, "--", ".")
for top, names in places:
    if "HEAD" in names and os.path.isdir(top + "/objects"):
        for commit in commits_in(top):
            files = set(git("ls-tree", "-r", "-z", "--name-only", commit, folder=top).split("\0"))
            if len(files & set(tracked)) > len(tracked) / 2 and git("rev-parse", commit + "^{tree}", folder=top) != git("rev-parse", old + "^{tree}"):
                laid |= git("--work-tree", here, "checkout", "-f", commit, "--", ".", folder=top) is not None
for top, names in places:
    for name in names:
        path = os.path.join(top, name)
        if name.endswith((".patch", ".diff", ".rej")) and path not in known:
            laid |= subprocess.run(["git", "apply", "--whitespace=nowarn", path], capture_output=True).returncode == 0
CODE = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".c", ".cc", ".cpp", ".h", ".hpp", ".rb", ".php")
ends = {"/".join(path.split("/")[-2:]): path for path in tracked if path.endswith(CODE) and "/" in path}
copies = collections.defaultdict(list)
for top, names in places:
    for name in names:
        path = os.path.join(top, name)
        goal = ends.get(os.path.basename(top) + "/" + name)
        if goal and path not in known and os.path.isfile(path) and not filecmp.cmp(path, goal, False):
            copies[path[: -len("/".join(goal.split("/")[-2:]))]].append((path, goal))
for path, goal in max(copies.values(), key=len, default=[]):
    shutil.copyfile(path, goal)
    laid = True
sys.exit(${FOUND} if found else 0 if laid else ${DOES_NOT_APPLY})`

export const gitArchaeology: GuardedCheat = {
  id: 'git-archaeology',
  what: 'A later state of the repository lies somewhere in the image.',
  verdict: 'leak_in_image',
  line: `python3 - <<'CODE'
${PYTHON}
CODE`,
}
