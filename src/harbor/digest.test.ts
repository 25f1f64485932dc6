import { mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type FileContents, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import type { Digest } from '../platform/blobs/blob.ts'
import { computeDatasetDigest, computeTaskDigest } from './digest.ts'
import { openFolderSource } from './folder-source.ts'
import { createReport } from './report.ts'
import { createMemorySource, type FileSource } from './source.ts'
import { hashFiles, listTaskFiles } from './task-files.ts'

// The digests were computed by Harbor itself: Packager and DatasetManifest of 0.24.0, and the same by 0.25.0.

const BASE: FileContents = {
  'task.toml': 'schema_version = "1.4"\n[task]\nname = "acme/demo"\n',
  'instruction.md': 'Do it.\n',
  'environment/Dockerfile': 'FROM alpine\n',
  'tests/test.sh': 'echo 1 > /logs/verifier/reward.txt\n',
  'solution/solve.sh': 'true\n',
}

const VECTORS: [what: string, files: FileContents, digest: string][] = [
  ['a small task', {}, 'a101e0b9d7b5a8c58fc48f90922b65abf2c64e31be202f905a86437828ad34be'],
  [
    'paths are sorted by code point',
    {
      'environment/\uE000': 'a',
      'environment/\u{1F600}': 'b',
      'environment/Z': 'c',
      'environment/a/b': 'd',
      'environment/a.b': 'e',
      'environment/ä': 'f',
    },
    '06c3bee7273747b286bbf30118892647312267539d8b0a4a8a1b1ffcefb8b5ad',
  ],
  [
    'what editors and Python leave behind does not count',
    {
      'tests/__pycache__/x.txt': '1',
      'tests/a.pyc': '2',
      'solution/.DS_Store': '3',
      'environment/b.swp': '4',
      'environment/c~': '5',
      'environment/d.swo': '6',
      'steps/__pycache__': 'a file of that name counts',
    },
    '6ea8c604eb23b58a908531423d3f5ac4efcf51ddb98baf280fa4d7433294c42a',
  ],
  [
    'a .gitignore takes the place of the usual rules',
    {
      '.gitignore': '# mine\n*.log\n!keep.log\n/environment/data/\ntests/**/tmp\n[ab].txt\n',
      'environment/x.log': '1',
      'environment/keep.log': '2',
      'environment/data/y': '3',
      'tests/q/tmp': '4',
      'tests/a.txt': '5',
      'tests/c.txt': '6',
      'tests/z.pyc': '7',
    },
    '29ac63c0592ee5f4757189797fb6a50089b9b6657a5e0a050196c9c3064a3209',
  ],
  [
    'other files at the root do not count',
    {
      LICENSE: 'x',
      'notes/a': 'y',
      'README.md': '# hi\n',
      'trajectory.json': '{}',
      'steps/one/instruction.md': '1',
      'steps/one/workdir/setup.sh': '2',
    },
    '572f33792d19157adf46b1ae91b7a46f2aaa9505a4395bb3658c5822d456c080',
  ],
  [
    'bytes are bytes',
    { 'environment/empty': '', 'environment/crlf': 'a\r\nb\r\n' },
    '9996fa9c6b48dc6ec0811f69719bd233efdc353b984855007e233be064e8a2fa',
  ],
]

const TASKS = VECTORS.map(([, , digest]): Digest => `sha256:${digest}`)

async function digestOf(source: FileSource): Promise<Digest> {
  const report = createReport()
  const files = await listTaskFiles(source, report)
  report.throwIfRefused()
  return computeTaskDigest(await hashFiles(source, files))
}

test.each(VECTORS)('computes the digest of Harbor: %s', async (_, files, digest) => {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, { ...BASE, ...files })

  expect(await digestOf(await openFolderSource(folder.path))).toBe(`sha256:${digest}`)
  expect(await digestOf(createMemorySource('any', Object.entries({ ...BASE, ...files })))).toBe(`sha256:${digest}`)
})

test('hashes a link to a file as that file and ignores empty folders, as Harbor does', async () => {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, BASE)
  await symlink('Dockerfile', join(folder.path, 'environment/link'))
  await symlink('../solution/solve.sh', join(folder.path, 'tests/up'))
  await mkdir(join(folder.path, 'environment/empty'))

  expect(await digestOf(await openFolderSource(folder.path))).toBe(
    'sha256:09d4a5389c671db4029213d0d91741d3ff30af9bd8b6026cdbb4af38d0c858fa',
  )
})

test('computes the dataset digest of Harbor from tasks and files in any order', () => {
  const [first = 'sha256:', second = 'sha256:', third = 'sha256:', fourth = 'sha256:'] = TASKS
  const files = [
    { path: 'metric.py', digest: third },
    { path: 'Z.txt', digest: fourth },
  ]

  expect(computeDatasetDigest([])).toBe('sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  expect(computeDatasetDigest([first])).toBe('sha256:87dd6aab180adc08c619787c37170bee80202756d4f233b4bdd3090a2e01f8f2')
  expect(computeDatasetDigest(TASKS)).toBe('sha256:8087c48b599caedb9971d657378398e38cc0e1257ffbea6f9066e8741ffb5c18')
  expect(computeDatasetDigest(TASKS.toReversed())).toBe(computeDatasetDigest(TASKS))
  expect(computeDatasetDigest([first, first])).toBe(
    'sha256:c27571843471506f241ae1e620f77deabc4132270d990230c02d2bab4942804e',
  )
  const withFiles = 'sha256:92d4489c5669a654db5884b13466e89ed1c63afdfc7ff8af86776b06ea317d6c'
  expect(computeDatasetDigest([second, first], files)).toBe(withFiles)
  expect(computeDatasetDigest([first, second], files.toReversed())).toBe(withFiles)
})

test('rejects an invalid digest as input', () => {
  expect(() => computeDatasetDigest(['sha256:ABC'])).toThrow('Not a digest')
})
