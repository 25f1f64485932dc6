"""Runs untrusted commands as an unprivileged user, and kills all processes of that user."""

import ctypes
import os
import resource
import signal
import stat
import subprocess
import tempfile
import threading
import time

OUTPUT_BYTES = 64 * 1024
KILL_ROUNDS = 200
PR_SET_NO_NEW_PRIVS = 38
LIBC = ctypes.CDLL(None)
TICKS = os.sysconf('SC_CLK_TCK')
# A run that exceeds its timeout is ended if it used less than PROGRESS_SECONDS of CPU time between two checks.
CHECK_SECONDS = 30
PROGRESS_SECONDS = 0.1


class BrokenRun(Exception):
    """A run without a usable result. Reasons: no_report, timeout, patch_does_not_apply, prepare_failed."""

    def __init__(self, reason, detail):
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class User:
    """Runs shell lines in the repository as the tests' user. One deadline applies to all of them."""

    def __init__(self, repository, plan):
        self.repository = repository
        self.uid = plan['uid']
        self.limit = plan['timeoutSec']
        self.deadline = time.monotonic() + self.limit
        # On a busy host tests get little CPU time. As long as they use it, they may take longer than the deadline.
        self.last_deadline = self.deadline + plan.get('patienceSec', 0)
        self.cpu_used_before = 0
        parent = tempfile.mkdtemp()
        os.chmod(parent, 0o711)
        self.report = self.make_user_folder(os.path.join(parent, os.urandom(16).hex()), 0o700)
        self.tools = os.path.join(parent, 'tools')
        os.mkdir(self.tools)
        for name, text in plan['tools'].items():
            with open(os.path.join(self.tools, name), 'w', encoding='utf-8') as file:
                file.write(text)
        self.env = self.environment()
        self.add_to_passwd(self.env['HOME'])

    def environment(self):
        """Returns the environment of the image, with fixed values for variables that would differ between runs."""
        home = os.environ.get('HOME', '')
        if home in ('', '/', '/root'):
            home = '/home/tests'
        if not os.path.isdir(home):
            os.makedirs(os.path.dirname(home), exist_ok=True)
            self.make_user_folder(home, 0o755)
        fixed = {
            'HOME': home, 'USER': 'tests', 'LOGNAME': 'tests', 'SHELL': '/bin/sh', 'TERM': 'dumb', 'CI': 'true',
            'TZ': 'UTC', 'LANG': 'C.UTF-8', 'LC_ALL': 'C.UTF-8', 'NO_COLOR': '1', 'PYTHONHASHSEED': '0',
            'PYTHONDONTWRITEBYTECODE': '1',
            # git refuses a repository of another user, here root, unless this is set.
            'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_KEY_0': 'safe.directory', 'GIT_CONFIG_VALUE_0': '*',
        }
        dropped = ('FORCE_COLOR', 'NODE_OPTIONS', 'PYTHONSTARTUP', 'PYTEST_ADDOPTS', 'PWD', 'OLDPWD')
        return {**{name: value for name, value in os.environ.items() if name not in dropped}, **fixed}

    def add_to_passwd(self, home):
        """Names the user, because some programs refuse to run for a user without a name."""
        with open('/etc/passwd', 'r+', encoding='utf-8', errors='surrogateescape') as file:
            if not any(line.split(':')[2:3] == [str(self.uid)] for line in file):
                file.write(f'tests:x:{self.uid}:{self.uid}::{home}:/bin/sh\n')

    def make_user_folder(self, path, mode):
        os.mkdir(path)
        os.chown(path, self.uid, self.uid)
        os.chmod(path, mode)
        return path

    def run(self, line):
        """Returns the exit code, 128 + n for signal n, and the end of the output."""
        if self.is_late():
            raise BrokenRun('timeout', line)
        # Not exported: programs that the line starts do not learn where the report is.
        script = f'ASSAY_REPORT={self.report}\nASSAY_TOOLS={self.tools}\n{line}'
        child = subprocess.Popen(
            ['/bin/sh', '-c', script], cwd=self.repository, env=self.env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            user=self.uid, group=self.uid, extra_groups=[], umask=0o022, preexec_fn=forbid_new_privileges,
        )
        tail = Tail(child.stdout)
        prefer_for_oom_kill(child.pid)
        code = None
        while code is None:
            try:
                code = child.wait(timeout=self.seconds_to_next_check())
            except subprocess.TimeoutExpired:
                if self.is_late():
                    self.kill_all()
                    raise BrokenRun('timeout', f'{line}\n{tail.text()}') from None
        return (code if code >= 0 else 128 - code), tail.text()

    def seconds_to_next_check(self):
        """Returns the seconds until the deadline; after it, the seconds between two checks."""
        left = self.deadline - time.monotonic()
        return left if left > 0 else max(0.01, min(CHECK_SECONDS, self.last_deadline - time.monotonic()))

    def is_late(self):
        """Returns whether a run must be ended: it is past its deadline, and stalls or has used its time on the CPU."""
        now = time.monotonic()
        if now < self.deadline:
            return False
        used = cpu_seconds_of(self.uid) + children_cpu_seconds()
        is_stalled = used - self.cpu_used_before < PROGRESS_SECONDS
        self.cpu_used_before = used
        return now >= self.last_deadline or used >= self.limit or is_stalled

    def kill_all(self):
        """Kills the user's processes until none is left: a report is read only when nothing can change it any more."""
        for _ in range(KILL_ROUNDS):
            self.kill_once()
            if not self.is_alive():
                return
            time.sleep(0.01)
        raise BrokenRun('no_report', 'Processes of the tests could not be ended.')

    def kill_once(self):
        """Kills all processes of the user in one system call, so that they cannot fork faster than they are killed."""
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(self.uid)
                os.setuid(self.uid)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    def is_alive(self):
        for name in os.listdir('/proc'):
            if name.isdigit() and any(self.uid in users_of(thread) for thread in threads_of(name)):
                return True
        return False


def children_cpu_seconds():
    """Returns the CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_seconds_of(uid):
    """Returns the CPU time of the running processes of a user and of their ended children."""
    total = 0
    for name in os.listdir('/proc'):
        try:
            if name.isdigit() and os.stat(f'/proc/{name}').st_uid == uid:
                with open(f'/proc/{name}/stat', encoding='utf-8', errors='replace') as file:
                    fields = file.read().rpartition(')')[2].split()
                total += sum(map(int, fields[11:15]))  # utime, stime, cutime and cstime
        except (OSError, ValueError):
            pass  # The process has just ended.
    return total / TICKS


def threads_of(pid):
    """Returns the threads of a process. A process looks dead once its first thread has ended, even if others still run."""
    try:
        return [f'/proc/{pid}/task/{thread}' for thread in os.listdir(f'/proc/{pid}/task')]
    except OSError:
        return []


def users_of(thread):
    """Returns the user ids of a thread; none if it is a zombie."""
    try:
        with open(f'{thread}/status', encoding='utf-8', errors='replace') as file:
            fields = dict(line.split(':', 1) for line in file if ':' in line)
    except OSError:
        return []
    if fields.get('State', '').strip()[:1] in ('Z', 'X'):
        return []
    return [int(uid) for uid in fields.get('Uid', '').split()]


def forbid_new_privileges():
    """Disables set-user-id programs, so that the process cannot become another user."""
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def prefer_for_oom_kill(pid):
    """Makes the kernel kill the tests, not the grader, when memory runs out."""
    try:
        with open(f'/proc/{pid}/oom_score_adj', 'w', encoding='ascii') as file:
            file.write('1000')
    except OSError:
        pass


class Tail:
    """Reads a pipe to its end and remembers the last bytes."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.last_bytes = b''
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while piece := os.read(self.pipe.fileno(), 65536):
            self.last_bytes = (self.last_bytes + piece)[-OUTPUT_BYTES:]

    def text(self):
        """Returns the end of the output. Does not wait for processes that still hold the pipe open."""
        self.thread.join(0.2)
        return self.last_bytes.decode('utf-8', 'replace').replace('\0', '')


def read_carefully(path, bytes_max):
    """Reads a regular file of at most this many bytes. Refuses links, pipes and files with a second hard link."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, 'rb') as file:
        stats = os.fstat(handle)
        if not stat.S_ISREG(stats.st_mode) or stats.st_nlink != 1:
            raise BrokenRun('no_report', f'{os.path.basename(path)} is not a regular file.')
        content = file.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise BrokenRun('no_report', f'{os.path.basename(path)} is larger than {bytes_max} bytes.')
    return content
