import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { hostileBuilds } from '../../test/support/sandboxes/build-cases.ts'
import { openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { findLeftovers } from '../../test/support/sandboxes/local-subject.ts'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import { createLog } from '../platform/log.ts'
import { createLocalProvider } from './local.ts'
import { type Image, type ImageSource, SandboxUnavailable, SandboxUnsupported } from './sandbox.ts'

vi.setConfig({ testTimeout: 120_000 })

let dataFolder: string
let provider: ReturnType<typeof createLocalProvider>

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-prepare-'))
  provider = createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase: false, log: createLog('silent') })
  await provider.importRootfs(await baseRootfs(), 'debian:bookworm-slim')
}, 600_000)

afterAll(() => rm(dataFolder, { recursive: true }))

type LocalPrepareInput = {
  image?: string
  workdir?: string
  target?: string
  args?: Record<string, string>
  timeoutSec?: number
}

async function prepare(files: Record<string, string>, options: LocalPrepareInput = {}, by = provider): Promise<Image> {
  const context = await mkdtemp(join(dataFolder, 'task-'))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(context, path)), { recursive: true })
    await writeFile(join(context, path), text)
  }
  const { image, workdir = null, target = null, args = {}, timeoutSec = 100 } = options
  const source: ImageSource =
    image === undefined
      ? { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target, args }
      : { kind: 'prebuilt', name: image, folder: context, workdir }
  return by.prepare(source, { signal: new AbortController().signal, timeoutSec, onLog: () => {} })
}

const without = (allowHostBase: boolean) =>
  createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase, useBuildah: false, log: createLog('silent') })

async function output(image: Image, script: string): Promise<string> {
  const subject = { provider, image, otherImage: image, brokenImage: image, unable: {}, leftovers: async () => [] }
  await using fixture = await openCaseContext({ ...subject, [Symbol.asyncDispose]: async () => {} })
  return (await fixture.run(script)).output
}

const TWO_STAGES = {
  Dockerfile: `ARG TAG=bookworm-slim
FROM debian:\${TAG} AS one
RUN echo built > /one
FROM debian:bookworm-slim
ENV GREETING="hello world"
WORKDIR /app
COPY --chown=33:33 file.txt sub/ ./
COPY --from=one /one /one
RUN echo $GREETING > out && rm /etc/debian_version && chown -R www-data /app
USER www-data
CMD ["bash"]
`,
  'file.txt': 'from the context\n',
  'sub/x': 's',
}

test('builds a Dockerfile of two stages with its user, working directory and variables', async () => {
  const image = await prepare(TWO_STAGES)
  expect(image).toMatchObject({ workdir: '/app', user: 'www-data', env: { GREETING: 'hello world' }, base: 'image' })
  expect(image).toMatchObject({ entrypoint: [], command: ['bash'] })
  expect(
    await output(image, 'cat out file.txt /one; ls x; ls /etc/debian_version; id -un; touch mine && echo ok'),
  ).toBe(
    `hello world\nfrom the context\nbuilt\nx\nls: cannot access '/etc/debian_version': No such file or directory\nwww-data\nok\n`,
  )
})

test('builds the same content once, and other content again', async () => {
  const first = await prepare(TWO_STAGES)
  const begun = performance.now()
  expect(await prepare(TWO_STAGES)).toEqual(first)
  expect(performance.now() - begun).toBeLessThan(500)
  const other = await prepare({ ...TWO_STAGES, 'file.txt': 'other\n' })
  expect(other.digest).not.toBe(first.digest)
  expect(await output(other, 'cat file.txt')).toBe('other\n')
})

test('finds an image by any spelling of its name', async () => {
  for (const image of [
    'debian:bookworm-slim',
    'docker.io/library/debian:bookworm-slim',
    'library/debian:bookworm-slim',
  ]) {
    expect(await output(await prepare({}, { image }), 'cat /etc/hostname > /dev/null; echo up')).toBe('up\n')
  }
})

test('names a base image that was not imported, and the fix', async () => {
  const dockerfile = 'FROM nowhere/missing:1\nRUN true\n'
  await expect(prepare({ Dockerfile: dockerfile })).rejects.toThrow(/nowhere\/missing:1.*assay images import/)
})

test('a failing command fails the build with its last output', async () => {
  const dockerfile = 'FROM debian:bookworm-slim\nRUN echo last words >&2; exit 3\n'
  await expect(prepare({ Dockerfile: dockerfile })).rejects.toThrow(SandboxUnavailable)
  await expect(prepare({ Dockerfile: dockerfile })).rejects.toThrow('last words')
})

test.each([
  ['WORKDIR /proc/self/fd/7', 'WORKDIR /proc/self/fd/7'],
  ['RUN --mount=type=secret,id=x cat /run/secrets/x', 'type=secret'],
  ['RUN --security=insecure true', 'insecure'],
  ['RUN --mount=type=bind,source=.,target=/x,rw true', 'RUN --mount'],
  ['ONBUILD RUN --mount=type=cache,target=/x true\nFROM debian:bookworm-slim', 'ONBUILD'],
])('%s is refused by name before anything is built', async (text, named) => {
  const built = prepare({ Dockerfile: `FROM debian:bookworm-slim\n${text}\n` })
  await expect(built).rejects.toThrow(SandboxUnsupported)
  await expect(built).rejects.toThrow(`Line 2 of the Dockerfile: `)
  await expect(built).rejects.toThrow(named)
})

test.each([[true], [false]])('builds here-documents and leaves caches out, with buildah: %s', async (hasBuildah) => {
  const files = {
    Dockerfile: `FROM debian:bookworm-slim
COPY --link greeting /
RUN --mount=type=cache,target=/cache <<END
printf one > /one
END
RUN cat <<A > /two
$((1 + 1))
A
`,
    greeting: 'hello',
  }
  const image = await prepare(files, {}, hasBuildah ? provider : without(false))
  expect(await output(image, 'cat /greeting /one /two')).toBe('helloone2\n')
})

test.each(Object.entries(hostileBuilds))('%s, with or without buildah', async (_, openCase) => {
  for (const by of [provider, without(false)]) {
    await using attack = await openCase({ image: 'debian:bookworm-slim', outside: dataFolder })
    const text = await output(await prepare(attack.files, {}, by), `cat ${attack.path}`)
    expect(attack.isHarmless(text), text).toBe(true)
  }
})

test('build commands run in a cgroup that limits them and is removed with the build', async () => {
  const dockerfile = 'FROM debian:bookworm-slim\nRUN cat /proc/self/cgroup > /group; setsid sleep 600 &\n'
  for (const [by, text] of [
    [provider, dockerfile],
    [without(false), `${dockerfile}ENV BUILT=in\n`],
  ] as const) {
    const group = await output(await prepare({ Dockerfile: text }, {}, by), 'cat /group')
    const [name = ''] = /assay-build-[\w-]+/.exec(group) ?? []
    expect(name).not.toBe('')
    expect(await findLeftovers(dataFolder, name)).toEqual([])
  }
})

test('a build that takes too long is ended with all its commands', async () => {
  const mark = randomUUID()
  const dockerfile = `FROM debian:bookworm-slim\nRUN setsid sh -c ': ${mark}; sleep 600; :' & sh -c ': ${mark}; sleep 600; :'\n`
  const built = prepare({ Dockerfile: dockerfile }, { timeoutSec: 8 })
  built.catch(() => {})
  await vi.waitFor(async () => expect(await processesNaming(`: ${mark}; sleep`)).not.toEqual([]), { timeout: 8000 })
  await expect(built).rejects.toThrow(SandboxUnavailable)
  await expect(built).rejects.toThrow('8 seconds')
  await vi.waitFor(async () => expect(await processesNaming(mark)).toEqual([]), { timeout: 5000 })
})

const STARTING = {
  Dockerfile: `ARG TAG=none
FROM debian:\${TAG} AS base
ARG WORD=default
RUN echo $WORD > /word
CMD ["serve", "a b"]
FROM base AS other
ENTRYPOINT run it
`,
}

test('applies build arguments, the target stage and the command of the image', async () => {
  const args = { TAG: 'bookworm-slim', WORD: 'given' }
  const first = await prepare(STARTING, { args, target: 'base' })
  expect(first).toMatchObject({ entrypoint: [], command: ['serve', 'a b'] })
  expect(await output(first, 'cat /word')).toBe('given\n')
  const plain = await prepare({ Dockerfile: 'FROM debian:bookworm-slim\nRUN true\n' })
  expect(plain).toMatchObject({ entrypoint: [], command: [] })
  const last = await prepare(STARTING, { args })
  expect(last).toMatchObject({ entrypoint: ['/bin/sh', '-c', 'run it'], command: [] })
  const [simple = ''] = STARTING.Dockerfile.split('FROM base')
  expect(await prepare({ Dockerfile: simple }, { args, target: 'base' }, without(false))).toMatchObject({
    entrypoint: [],
    command: ['serve', 'a b'],
  })
})

test('a build may open as many files as this process, which may be unable to raise its limits', async () => {
  const image = await prepare({ Dockerfile: 'FROM debian:bookworm-slim\nRUN ulimit -H -n > /files\n' })
  const [, hard = ''] = /^Max open files +\S+ +(\S+)/m.exec(await readFile('/proc/self/limits', 'utf8')) ?? []
  const expected = hard === 'unlimited' ? 1_048_576 : Math.min(Number(hard), 1_048_576)
  expect(await output(image, 'cat /files')).toBe(`${expected}\n`)
})

const SIMPLE = {
  Dockerfile: `ARG TAG=bookworm-slim
FROM debian:\${TAG}
ARG WHO=world
ENV GREETING="hello $WHO" PLACE=/app
WORKDIR $PLACE
COPY --chown=www-data file.txt sub/ ./
COPY sub /sub
COPY file.txt /renamed.txt
RUN echo $GREETING $WHO > out && \\
  rm /etc/debian_version
RUN ["touch", "exec form"]
USER www-data
LABEL a=b
EXPOSE 80
CMD ["bash"]
`,
  'file.txt': 'from the context\n',
  'sub/x': 's',
}

test('without buildah, the built-in builder builds a simple Dockerfile once', async () => {
  const image = await prepare(SIMPLE, {}, without(false))
  expect(image).toMatchObject({ workdir: '/app', user: 'www-data', env: { GREETING: 'hello world', PLACE: '/app' } })
  expect(image.env).not.toHaveProperty('WHO')
  expect(image).toMatchObject({ entrypoint: [], command: ['bash'] })
  const script =
    'cat out file.txt /renamed.txt; ls; ls /sub /etc/debian_version 2> /dev/null; stat -c %U file.txt /sub/x out'
  expect(await output(image, script)).toBe(
    'hello world world\nfrom the context\nfrom the context\nexec form\nfile.txt\nout\nx\n/sub:\nx\nwww-data\nroot\nroot\n',
  )
  expect(await prepare(SIMPLE, {}, without(false))).toEqual(image)
})

test.each([
  ['FROM debian:bookworm-slim AS two', 'a second FROM'],
  ['ADD file.txt /', 'ADD'],
  ['COPY --from=x a b', 'COPY --from'],
  ['COPY *.txt /', 'the pattern *.txt'],
  ['HEALTHCHECK CMD true', 'HEALTHCHECK'],
  ['SHELL ["bash", "-c"]', 'SHELL'],
  ['VOLUME /data', 'VOLUME'],
])('without buildah, %s is refused by name and line', async (text, named) => {
  const built = prepare({ Dockerfile: `FROM debian:bookworm-slim\n${text}\n` }, {}, without(false))
  await expect(built).rejects.toThrow(SandboxUnsupported)
  await expect(built).rejects.toThrow(`Line 2 of the Dockerfile: ${named} needs buildah.`)
})

test('COPY does not write through links of the image, with or without buildah', async () => {
  const [outside, rootfs] = [join(dataFolder, 'outside'), join(dataFolder, 'linked')]
  await promisify(execFile)('cp', ['-a', '-T', await baseRootfs(), rootfs])
  await mkdir(join(rootfs, 'app'))
  await symlink(outside, join(rootfs, 'app/file'))
  await provider.importRootfs(rootfs, 'linked:1')
  for (const [by, word] of [
    [provider, 'with'],
    [without(false), 'without'],
  ] as const) {
    await writeFile(outside, 'untouched')
    const link = `FROM debian:bookworm-slim\nENV BUILT=${word}\nRUN mkdir /app && ln -s ${outside} /app/file\n`
    const built = await prepare({ Dockerfile: `${link}COPY files/ /app/\n`, 'files/file': word }, {}, by)
    const beside = await prepare({ file: word }, { image: 'linked:1', workdir: '/app' }, by)
    for (const image of [built, beside]) expect(await output(image, 'cat /app/file')).toBe(word)
    expect(await readFile(outside, 'utf8')).toBe('untouched')
  }
})

test('without buildah, no command can open a program of this machine for writing', async () => {
  const Dockerfile = 'FROM debian:bookworm-slim\nRUN { test -w /proc/1/exe && echo writable; } > /seen; true\n'
  expect(await output(await prepare({ Dockerfile }, {}, without(false)), 'cat /seen')).toBe('')
})

test('without buildah, COPY reads nothing outside the context', async () => {
  for (const path of ['../../../../etc/shadow', '/etc/shadow', 'link']) {
    const built = prepare({ Dockerfile: `FROM debian:bookworm-slim\nCOPY ${path} /taken\n` }, {}, without(false))
    await expect(built).rejects.toThrow('not found')
  }
})

test('the host is a base image only if the operator allows it, without home folders and secrets', async () => {
  const files = { Dockerfile: 'FROM python:3\nWORKDIR /app\nRUN echo built > out\n' }
  await expect(prepare(files, {}, without(false))).rejects.toThrow('python:3')

  const image = await prepare(files, {}, without(true))
  expect(image.base).toBe('host-base')
  const script = `cat out; ls /root /home ${dataFolder} /etc/shadow /work 2> /dev/null; touch /usr/x 2> /dev/null || echo kept; ls /`
  const text = await output(image, script)
  expect(text.split('\n').slice(0, 2)).toEqual(['built', '/home:'])
  expect(text).toContain('kept')
  expect(text).not.toContain('shadow')
})

test('the base image of the host is the same for every task, and made again if its layers were removed', async () => {
  const own = await mkdtemp(join(dataFolder, 'own-'))
  const by = createLocalProvider({ dataFolder: own, runtime: 'bwrap', allowHostBase: true, log: createLog('silent') })
  const base = await prepare({}, { image: 'python:3' }, by)
  const layers = join(own, 'sandboxes/local/layers')
  const before = await readdir(layers)
  expect(await prepare({}, { image: 'node:24' }, by)).toEqual(base)
  await rm(layers, { recursive: true })
  await mkdir(layers)
  expect(await prepare({}, { image: 'python:3' }, by)).toEqual(base)
  expect(await readdir(layers)).toEqual(before)
})

test.each([
  ['buildah', () => provider],
  ['the built-in builder', () => without(false)],
])('%s begins with the layers of another image, and removes only those that nothing else has', async (name, open) => {
  const by = open()
  const lines = [`ENV BUILDER="${name}"`, 'WORKDIR /app', 'COPY one .', 'RUN cat /proc/sys/kernel/random/uuid > number']
  const first = ['FROM debian:bookworm-slim', ...lines].join('\n')
  const beginning = await prepare({ Dockerfile: `${first}\n`, one: '1' }, {}, by)
  const number = await output(beginning, 'cat number')
  const files = { Dockerfile: `${first}\nCOPY two .\nRUN echo $BUILDER > builder\n`, one: '1', two: '2' }
  const whole = await prepare(files, {}, by)
  expect(await output(whole, 'cat number builder one two')).toBe(`${number}${name}\n12`)
  await by.discard(whole)
  await expect(output(whole, 'true')).rejects.toThrow('Prepare it again')
  expect(await output(beginning, 'cat number')).toBe(number)
  expect(await output(await prepare(files, {}, by), 'cat number')).toBe(number)
  const other = await prepare({ ...files, one: '3' }, {}, by)
  expect(await output(other, 'cat number')).not.toBe(number)
})

test('an imported image is not discarded', async () => {
  const source = { kind: 'prebuilt' as const, name: 'debian:bookworm-slim', folder: null, workdir: null }
  const image = await provider.prepare(source, {
    signal: AbortSignal.timeout(100_000),
    timeoutSec: 100,
    onLog: () => {},
  })
  await provider.discard(image)
  expect(await output(image, 'echo here')).toBe('here\n')
})
