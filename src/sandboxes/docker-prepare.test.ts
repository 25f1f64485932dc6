import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseImages, type Dockerd, startDockerd } from '../../test/support/dockerd.ts'
import { PACKAGE_HOSTS } from '../../test/support/package-hosts.ts'
import { openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import { DEFAULT_LIMITS } from '../harbor/limits.ts'
import { createLog } from '../platform/log.ts'
import { createDockerProvider } from './docker.ts'
import { createCgroup, findLayout, listAllCgroupFolders, removeCgroup } from './kernel/cgroup.ts'
import {
  type Image,
  type ImageSource,
  type SandboxProvider,
  SandboxUnavailable,
  SandboxUnsupported,
} from './sandbox.ts'
import { pruneDockerImages } from './sandboxes.ts'

vi.setConfig({ testTimeout: 120_000 })

let dataFolder: string
let dockerd: Dockerd
let provider: SandboxProvider
let fence: AsyncDisposable & { name: string }

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-prepare-'))
  fence = await openFence()
  dockerd = await startDockerd({ args: ['--cgroup-parent', `/${fence.name}`], images: await baseImages() })
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  provider = createDockerProvider({
    connection,
    installation: 'prepare',
    dataFolder,
    buildHosts: PACKAGE_HOSTS,
    log: createLog('silent'),
  })
}, 600_000)

afterAll(async () => {
  await dockerd[Symbol.asyncDispose]()
  await fence[Symbol.asyncDispose]()
  await rm(dataFolder, { recursive: true })
})

/** More than a build may have, and less than takes this machine down: all containers of the engine together. */
const FENCE = { ...DEFAULT_LIMITS, cpus: 64, memoryMb: 16_384, pids: 4600, outputBytes: 0, seconds: 0 }

async function openFence() {
  const layout = await findLayout()
  if (!layout) throw new Error('There are no groups of processes here.')
  const id = `fence-${process.pid}`
  await createCgroup(layout, id, FENCE, 0)
  return { name: `assay-${id}`, [Symbol.asyncDispose]: () => removeCgroup(listAllCgroupFolders(layout, id)) }
}

type DockerPrepareInput = {
  target?: string | null
  args?: Record<string, string>
  timeoutSec?: number
  onLog?: (line: string) => void
  builder?: SandboxProvider
}

async function folderOf(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(dataFolder, 'task-'))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  return folder
}

const options = ({ timeoutSec = 100, onLog = () => {} }: DockerPrepareInput = {}) => ({
  signal: new AbortController().signal,
  timeoutSec,
  onLog,
})

async function build(files: Record<string, string>, input: DockerPrepareInput = {}): Promise<Image> {
  const { target = null, args = {}, builder = provider } = input
  const context = await folderOf(files)
  return builder.prepare({ kind: 'dockerfile', context, dockerfile: 'Dockerfile', target, args }, options(input))
}

const dockerfile = (...lines: string[]) => ({ Dockerfile: `FROM debian:bookworm-slim\n${lines.join('\n')}\n` })

async function output(image: Image, script: string): Promise<string> {
  const subject = { provider, image, otherImage: image, brokenImage: image, unable: {}, leftovers: async () => [] }
  await using fixture = await openCaseContext({ ...subject, [Symbol.asyncDispose]: async () => {} })
  return (await fixture.run(script)).output
}

const TWO_STAGES = {
  Dockerfile: `ARG TAG=bookworm-slim
FROM debian:\${TAG} AS one
ARG WHO=nobody
RUN echo built for $WHO > /one
FROM debian:bookworm-slim
ENV GREETING="hello world"
WORKDIR /app
COPY --chown=33:33 file.txt sub/ ./
COPY --from=one /one /one
RUN echo $GREETING > out && rm /etc/debian_version && chown -R www-data /app
USER www-data
ENTRYPOINT ["/bin/echo"]
CMD ["a", "b"]
`,
  'file.txt': 'from the context\n',
  'sub/x': 's',
}

test('builds a Dockerfile of two stages with its settings, and does not run its entrypoint', async () => {
  const image = await build(TWO_STAGES, { args: { WHO: 'us' } })
  expect(image).toMatchObject({
    workdir: '/app',
    user: 'www-data',
    env: { GREETING: 'hello world' },
    base: 'image',
    entrypoint: ['/bin/echo'],
    command: ['a', 'b'],
  })
  const script = 'cat out file.txt /one; ls x; ls /etc/debian_version 2> /dev/null; id -un; touch mine && echo ok'
  expect(await output(image, script)).toBe('hello world\nfrom the context\nbuilt for us\nx\nwww-data\nok\n')
})

test('the build stops at the target stage', async () => {
  const image = await build(TWO_STAGES, { target: 'one' })
  expect(await output(image, 'cat /one; ls -d /app 2> /dev/null')).toBe('built for nobody\n')
})

test('builds the same content once, also concurrently, and other content, arguments and targets again', async () => {
  const lines: string[] = []
  const input = { onLog: (line: string) => lines.push(line) }
  const both = await Promise.all([
    build(dockerfile('RUN echo 1 > /one'), input),
    build(dockerfile('RUN echo 1 > /one'), input),
  ])
  expect(both[0]).toEqual(both[1])
  expect(lines.filter((line) => line.startsWith('Step 2/2'))).toHaveLength(1)
  const digests = await Promise.all([
    build(TWO_STAGES),
    build(TWO_STAGES, { args: { WHO: 'x' } }),
    build({ ...TWO_STAGES, 'file.txt': 'other' }),
  ])
  expect(new Set(digests.map(({ digest }) => digest)).size).toBe(3)
})

test('files in .dockerignore are neither in the context nor in a log', async () => {
  const image = await build({
    ...dockerfile('COPY . /all/'),
    '.dockerignore': '# a remark\n**/*.key\nsecret\n!secret/kept\nDockerfile\n',
    'a.key': 'x',
    'deep/b.key': 'x',
    'secret/hidden': 'x',
    'secret/kept': 'x',
    plain: 'x',
  })
  expect(await output(image, 'cd /all; find . -type f | sort')).toBe('./.dockerignore\n./plain\n./secret/kept\n')
})

test('a symbolic link in the build context resolves only inside the image', async () => {
  const context = await folderOf(
    dockerfile('COPY . /all/', 'RUN readlink /all/link > /seen; cat /all/link > /taken || true'),
  )
  await writeFile(join(dataFolder, 'outside'), 'of the machine')
  await symlink(join(dataFolder, 'outside'), join(context, 'link'))
  const source: ImageSource = { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} }
  expect(await output(await provider.prepare(source, options()), 'cat /seen /taken')).toBe(
    `${join(dataFolder, 'outside')}\n`,
  )
})

test('copies the files beside a prebuilt image into its working directory', async () => {
  const folder = await folderOf({ 'a.txt': 'a', 'sub/b.txt': 'b' })
  const named = { kind: 'prebuilt' as const, name: 'debian:bookworm-slim' }
  const image = await provider.prepare({ ...named, folder, workdir: '/work here' }, options())
  expect(image.workdir).toBe('/work here')
  expect(await output(image, 'pwd; find . -type f | sort')).toBe('/work here\n./a.txt\n./sub/b.txt\n')
  const plain = await provider.prepare(
    { ...named, folder: await folderOf({ '.gitkeep': '' }), workdir: null },
    options(),
  )
  expect(plain.workdir).toBe('/')
})

test('names an image that is missing and cannot be pulled, and the fix', async () => {
  const source = { kind: 'prebuilt' as const, name: '127.0.0.1:1/nowhere/missing:1', folder: null, workdir: null }
  const prepared = provider.prepare(source, options())
  await expect(prepared).rejects.toThrow(SandboxUnavailable)
  await expect(prepared).rejects.toThrow(/127\.0\.0\.1:1\/nowhere\/missing:1.*docker pull/)
  const built = build({ Dockerfile: 'FROM 127.0.0.1:1/nowhere/missing:1\n' })
  await expect(built).rejects.toThrow(SandboxUnavailable)
})

test('collects files from a volume of the image and starts the next sandbox from them', async () => {
  const image = await build(dockerfile('VOLUME /data'))
  const subject = { provider, image, otherImage: image, brokenImage: image, unable: {}, leftovers: async () => [] }
  await using fixture = await openCaseContext({ ...subject, [Symbol.asyncDispose]: async () => {} })
  const { sandbox } = await fixture.run('echo 1 > /data/file')
  const baseFilesystem = { kind: 'workspace' as const, from: sandbox.stopped, paths: ['/data'] }
  expect((await fixture.run('cat /data/file', { baseFilesystem })).output).toBe('1\n')
})

test('a failing command fails the build with its last output', async () => {
  const built = build(dockerfile('RUN echo last words >&2; exit 3'))
  await expect(built).rejects.toThrow(SandboxUnavailable)
  await expect(built).rejects.toThrow('last words')
})

test.each([
  ['WORKDIR /proc/self/fd/7', 'WORKDIR /proc/self/fd/7'],
  ['RUN --mount=type=secret,id=x cat /run/secrets/x', 'type=secret'],
  ['RUN --security=insecure true', 'insecure'],
  ['RUN --network=host true', 'network=host'],
  ['ONBUILD ADD http://127.0.0.1/x /\nFROM debian:bookworm-slim', 'ONBUILD'],
])('%s is refused by name before anything is built', async (text, named) => {
  const built = build(dockerfile(text))
  await expect(built).rejects.toThrow(SandboxUnsupported)
  await expect(built).rejects.toThrow(`Line 2 of the Dockerfile: `)
  await expect(built).rejects.toThrow(named)
})

test('builds BuildKit syntax: here-documents, caches, links and modes', async () => {
  const image = await build({
    Dockerfile: `FROM debian:bookworm-slim
COPY --link --chmod=750 run.sh conf/ /app/
COPY <<END <<"OTHER" /texts/
one
END
$HOME
OTHER
RUN --mount=type=cache,target=/cache --mount=type=tmpfs,target=/scratch <<END
printf two > /two
END
RUN cat <<A > /three && cat <<-'B' >> /three
$((1 + 2))
A
	$HOME
	B
RUN <<END
#!/usr/bin/perl
print 'four'
END
`,
    'run.sh': 'echo 1\n',
    'conf/x': 'x',
  })
  expect(await output(image, 'stat -c "%a %n" /app/*; cat /texts/END /texts/OTHER /two; echo; cat /three')).toBe(
    '750 /app/run.sh\n750 /app/x\none\n$HOME\ntwo\n3\n$HOME\n',
  )
})

test.each([
  ['RUN --mount=type=bind,source=.,target=/x true', 'RUN --mount=type=bind'],
  ['RUN --network=none true', 'RUN --network=none'],
  ['COPY --parents a /', 'COPY --parents'],
  ['COPY --chmod=u+x a /', 'COPY --chmod=u+x'],
  ['COPY <<END /x\n$HOME\nEND', 'COPY <<'],
])('%s is refused by name, because it needs BuildKit', async (text, named) => {
  const built = build(dockerfile(text))
  await expect(built).rejects.toThrow(SandboxUnsupported)
  await expect(built).rejects.toThrow(`Line 2 of the Dockerfile: ${named}`)
})

test('a command installs packages, and nothing of the egress proxy stays in the image or the engine', async () => {
  const image = await build(dockerfile('RUN apt-get update && apt-get install -y --no-install-recommends netbase'))
  expect(await output(image, 'head -n 1 /etc/protocols; env | grep -ci proxy')).toMatch(/Internet.*\n0\n$/)
  expect(await dockerd.docker.call('GET', '/containers/json', { query: { all: true } })).toEqual([])
})

test.each([
  ['ADD http://127.0.0.1/x /'],
  ['ARG URL\nADD $URL /'],
  ['ADD --chown=1 ["git@host.example:x.git", "/"]'],
  [String.raw`ADD ["http:\/\/127.0.0.1/x", "/"]`],
  [String.raw`ADD ["http\u003a\u002f\u002f127.0.0.1/x", "/"]`],
  [String.raw`ADD http:/\/127.0.0.1/x /`],
  ['ADD http:"//"127.0.0.1/x /'],
])('%s is refused: the engine would fetch it in its own network', async (text) => {
  await expect(build(dockerfile(text))).rejects.toThrow(SandboxUnsupported)
  await expect(build(dockerfile(text))).rejects.toThrow(/ADD of a URL/)
})

test('refuses to build on an image with ONBUILD commands', async () => {
  const { docker } = dockerd
  const query = { container: '', repo: 'lab/triggers', tag: '1', changes: 'ONBUILD ADD http://127.0.0.1/x /' }
  const body = { Image: 'debian:bookworm-slim', Cmd: ['true'], HostConfig: { NetworkMode: 'none' } }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  await docker.call('POST', '/commit', { query: { ...query, container: Id }, body: {} })
  for (const text of [
    'FROM lab/triggers:1\n',
    'ARG A=triggers:1\nARG B=lab/$A\nFROM $B\nFROM scratch AS lab/triggers:1\n',
  ])
    await expect(build({ Dockerfile: text })).rejects.toThrow(/lab\/triggers:1.*ONBUILD/)
  const folder = await folderOf({ file: 'x' })
  const beside = { kind: 'prebuilt', name: 'lab/triggers:1', folder, workdir: null } as const
  await expect(provider.prepare(beside, options())).rejects.toThrow(/ONBUILD/)
  await docker.call('DELETE', `/containers/${Id}`)
})

test('a build that takes too long is ended with all its commands', async () => {
  const mark = randomUUID()
  const files = dockerfile(`RUN setsid sh -c ': ${mark}; sleep 600; :' & sh -c ': ${mark}; sleep 600; :'`)
  const built = build(files, { timeoutSec: 8 })
  built.catch(() => {})
  await vi.waitFor(async () => expect(await processesNaming(`: ${mark}; sleep`)).not.toEqual([]), { timeout: 8000 })
  await expect(built).rejects.toThrow('not ready after 8 seconds')
  await vi.waitFor(async () => expect(await processesNaming(mark)).toEqual([]), { timeout: 10_000 })
})

test('a build has at most 4096 processes', async () => {
  const bomb = 'n=0; while [ $n -lt 4500 ]; do sleep 300 & n=$((n + 1)); [ $n = 4000 ] && echo many; done; echo all'
  const lines: string[] = []
  const built = build(dockerfile(`RUN ${bomb}`), { onLog: (line) => lines.push(line) })
  await expect(built).rejects.toThrow(/cannot fork/i)
  expect([lines.includes('many'), lines.includes('all')]).toEqual([true, false])
})

test('output of a build command does not affect existing containers', async () => {
  const { docker } = dockerd
  const body = { Image: 'debian:bookworm-slim', Cmd: ['true'], HostConfig: { NetworkMode: 'none' } }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  const lines: string[] = []
  await build(dockerfile(`RUN echo ' ---> Running in ${Id.slice(0, 12)}'`), { onLog: (line) => lines.push(line) })
  expect(lines).toContain(` ---> Running in ${Id.slice(0, 12)}`)
  const { HostConfig } = await docker.call<{ HostConfig: { PidsLimit: number | null } }>(
    'GET',
    `/containers/${Id}/json`,
  )
  expect(HostConfig.PidsLimit).toBeNull()
})

test('a discarded image leaves the layers of other images, and less than 5 MB of its own', async () => {
  const write = (name: string) => `RUN head -c 20000000 /dev/urandom > /${name}`
  const readSize = async () => (await dockerd.docker.call<{ LayersSize: number }>('GET', '/system/df')).LayersSize
  const shared = await build(dockerfile(write('shared')))
  const before = await readSize()
  const own = await build(dockerfile(write('shared'), write('own')))
  expect((await readSize()) - before).toBeGreaterThan(15e6)
  await provider.discard(own)
  expect((await readSize()) - before).toBeLessThan(5e6)
  expect(await output(shared, 'wc -c < /shared')).toBe('20000000\n')
})

/** A second installation on the same engine, which builds images whose /word contains a text. */
async function openOther(installation: string, settings: { imageDiskBytes?: number } = {}) {
  const folder = await mkdtemp(join(dataFolder, `${installation}-`))
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  const log = createLog('silent')
  const builder = createDockerProvider({ ...settings, connection, installation, dataFolder: folder, log })
  const make = (word: string) => build(dockerfile(`RUN echo ${word} > /word`), { builder })
  const makeUnused = async (word: string): Promise<Image> => {
    const image = await make(word)
    const uses = join(folder, 'sandboxes', 'docker', 'uses')
    for (const name of await readdir(uses)) await utimes(join(uses, name), 0, 0)
    return image
  }
  return { folder, make, makeUnused }
}

test('above the disk limit, images that were not used lately are removed, and others are not', async () => {
  const { make, makeUnused } = await openOther('limited', { imageDiskBytes: 1 })
  const old = await makeUnused('old')
  const [recent, last] = [await make('recent'), await make('last')]
  await expect(output(old, 'cat /word')).rejects.toThrow(SandboxUnavailable)
  expect(await output(recent, 'cat /word')).toBe('recent\n')
  expect(await output(last, 'cat /word')).toBe('last\n')
})

test('a build that writes more than its disk limit fails, also in small steps, and leaves no image', async () => {
  const context = await folderOf(
    dockerfile(...['a', 'b', 'c'].map((name) => `RUN head -c 30000000 /dev/zero > /${name}`)),
  )
  const source = { kind: 'dockerfile' as const, context, dockerfile: 'Dockerfile', target: null, args: {} }
  const prepare = (diskMb: number) => provider.prepare(source, { ...options(), limits: { ...DEFAULT_LIMITS, diskMb } })

  await expect(prepare(64)).rejects.toThrow('The build wrote more than 64 MiB.')
  await expect(prepare(64)).rejects.toThrow('The build wrote more than 64 MiB.')
  expect(await output(await prepare(128), 'cat /a /b /c | wc -c')).toBe('90000000\n')
})

test('prunes built images that were not used for some time, and no others', async () => {
  const { folder, make, makeUnused } = await openOther('pruned')
  const old = await makeUnused('unused')
  const recent = await make('still used')
  const prune = (isDryRun: boolean, dockerHost = `unix://${dockerd.socket}`) =>
    pruneDockerImages({ dataFolder: folder, dockerHost }, { olderThanMs: 3_600_000, isDryRun })

  await expect(prune(false, 'unix:///nonexistent/docker.sock')).rejects.toThrow(SandboxUnavailable)
  expect(await prune(true)).toMatchObject([{ path: old.digest, bytes: expect.any(Number) }])
  expect(await prune(false)).toMatchObject([{ path: old.digest, bytes: expect.any(Number) }])
  expect(await prune(false)).toEqual([])
  await expect(output(old, 'cat /word')).rejects.toThrow(SandboxUnavailable)
  expect(await output(recent, 'cat /word')).toBe('still used\n')
})
