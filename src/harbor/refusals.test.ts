import { execFileSync } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type FileContents, temporaryFolder, writeFiles } from '../../test/support/harbor/folders.ts'
import {
  readFindings,
  readSmallTask,
  readTaskToml,
  SMALL_TASK,
  summarizeFindings,
} from '../../test/support/harbor/small-task.ts'
import { openFolderSource } from './folder-source.ts'
import { readTask } from './read-task.ts'
import { createMemorySource } from './source.ts'

test.each<[toml: string, ...findings: string[]]>([
  ['a = ', 'toml_syntax task.toml'],
  ['a = 1\na = 2', 'toml_syntax task.toml'],
  ['agent = 5', 'wrong_type agent'],
  ['steps = {}', 'wrong_type steps'],
  ['metadata = []', 'wrong_type metadata'],
  ['agent.timeout_sec = "soon"', 'wrong_type agent.timeout_sec'],
  ['agent.timeout_sec = 0', 'out_of_range agent.timeout_sec'],
  ['agent.timeout_sec = inf', 'wrong_type agent.timeout_sec'],
  ['verifier.timeout_sec = -1', 'out_of_range verifier.timeout_sec'],
  ['environment.memory_mb = 1.5', 'out_of_range environment.memory_mb'],
  ['environment.memory = "lots"', 'invalid_value environment.memory'],
  ['environment.memory = "1G"\nenvironment.memory_mb = 5', 'conflict environment.memory'],
  ['environment.os = "mac"', 'invalid_value environment.os'],
  ['environment.docker_image = "--privileged"', 'invalid_value environment.docker_image'],
  ['environment.env.A = 1', 'wrong_type environment.env.A'],
  ['environment.env."A=B" = "1"', 'invalid_value environment.env.A=B'],
  ['environment.tpu = { type = "v4", topology = "2by4" }', 'invalid_value environment.tpu.topology'],
  ['environment.healthcheck = {}', 'required environment.healthcheck.command'],
  ['environment.network_mode = "none"', 'invalid_value environment.network_mode'],
  ['environment.allowed_hosts = ["a.example"]', 'conflict environment.allowed_hosts'],
  ['agent.allowed_hosts = []', 'conflict agent.allowed_hosts'],
  ['agent = { network_mode = "allowlist", allowed_hosts = ["http://a"] }', 'invalid_value agent.allowed_hosts.0'],
  ['agent.user = ""', 'invalid_value agent.user'],
  ['agent.user = "a b"', 'invalid_value agent.user'],
  ['environment.mcp_servers = [{ name = "a" }]', 'required environment.mcp_servers.0.url'],
  ['environment.mcp_servers = [{ name = "a", transport = "stdio" }]', 'required environment.mcp_servers.0.command'],
  [
    'environment.mcp_servers = [{ name = "a", url = "u", headers = { Authorization = "Bearer secret" } }]',
    'invalid_value environment.mcp_servers.0.headers.Authorization',
  ],
  ['task.name = "demo"', 'invalid_value task.name'],
  ['task.name = "a/.."', 'invalid_value task.name'],
  ['task = { name = "a/b", version = "" }', 'invalid_value task.version'],
  ['artifacts = ["../x"]', 'invalid_value artifacts.0.source'],
  ['artifacts = [{ source = "/x", destination = "/etc" }]', 'invalid_value artifacts.0.destination'],
  ['artifacts = [{ source = "/x", destination = "manifest.json" }]', 'invalid_value artifacts.0.destination'],
  ['artifacts = [{ source = "x", service = "db" }]', 'invalid_value artifacts.0.source', 'unknown_service task.toml'],
  ['verifier = { environment_mode = "shared", environment = {} }', 'conflict verifier.environment'],
  ['multi_step_reward_strategy = "max"', 'invalid_value multi_step_reward_strategy'],
  ['[[steps]]', 'required steps.0.name', 'invalid_value steps.0.name', 'missing_file steps//instruction.md'],
  ['[[steps]]\nname = "a/b"', 'invalid_value steps.0.name', 'missing_file steps/a/b/instruction.md'],
  ['[[steps]]\nname = "nul.txt"', 'invalid_value steps.0.name', 'missing_file steps/nul.txt/instruction.md'],
])('%s', async (toml, ...findings) => {
  expect(summarizeFindings(await readFindings(readTaskToml(toml)))).toEqual(findings)
})

test('reports all problems, in the order of task.toml and then the folder', async () => {
  const findings = await readFindings(
    readSmallTask({
      'task.toml': 'agent.timeout_sec = 0\nverifier.user = []\n[[steps]]\nname = "One"\n[[steps]]\nname = "one"\n',
      'environment/Dockerfile': 'RUN true\n',
      'environment/docker-compose.yaml': 'services: {main: {privileged: true}}',
    }),
  )

  expect(summarizeFindings(findings)).toEqual([
    'out_of_range agent.timeout_sec',
    'invalid_value verifier.user',
    'duplicate steps.1.name',
    'dockerfile_syntax environment/Dockerfile',
    'dockerfile_syntax environment/Dockerfile',
    'unsupported_key environment/docker-compose.yaml.services.main.privileged',
    'missing_file steps/One/instruction.md',
    'missing_file steps/one/instruction.md',
  ])
  expect(findings.every(({ message }) => message.endsWith('.'))).toBe(true)
})

test.each<[missing: string, findings: string[]]>([
  ['task.toml', ['missing_file task.toml']],
  ['instruction.md', ['missing_file instruction.md']],
  ['tests/test.sh', ['missing_file tests/test.sh']],
  ['environment/Dockerfile', ['no_environment environment']],
])('refuses a task without %s', async (missing, findings) => {
  const files = Object.entries(SMALL_TASK).filter(([path]) => path !== missing)

  expect(summarizeFindings(await readFindings(readTask(createMemorySource('x', files))))).toEqual(findings)
})

test.each<[what: string, files: FileContents, findings: string[]]>([
  ['a long task.toml', { 'task.toml': `# ${'x'.repeat(256 * 1024)}` }, ['too_large task.toml']],
  ['a task.toml of bytes', { 'task.toml': Buffer.from([0xff, 0xfe]) }, ['not_utf8 task.toml']],
  ['a NUL in a Dockerfile', { 'environment/Dockerfile': 'FROM a\n# \0\n' }, ['invalid_value environment/Dockerfile']],
  ['an instruction of bytes', { 'instruction.md': Buffer.from([0x80]) }, ['not_utf8 instruction.md']],
  ['two names that are one', { 'tests/A': '', 'tests/a': '' }, ['collision tests/a']],
  ['two spellings of a name', { 'tests/ﬁ': '', 'tests/fi': '' }, ['collision tests/ﬁ']],
  ['a name with a backslash', { 'tests/a\\b': '' }, ['unsafe_path tests/a\\b']],
  ['a name with a control character', { 'tests/a\nb': '' }, ['unsafe_path tests/a?b']],
  ['a bad .gitignore', { '.gitignore': '[z-a]' }, ['bad_pattern .gitignore']],
  ['the newer ignore file', { 'tests/.harborignore': '*' }, ['unsupported .harborignore']],
  ['a Dockerfile that is ignored', { '.gitignore': 'Dockerfile' }, ['no_environment environment']],
])('%s', async (_, files, findings) => {
  expect(summarizeFindings(await readFindings(readSmallTask(files)))).toEqual(findings)
})

test('refuses links out of the task, links to folders, and pipes', async () => {
  await using folder = await temporaryFolder()
  const task = join(folder.path, 'task')
  await writeFiles(folder.path, { secret: 's' })
  await writeFiles(task, SMALL_TASK)
  await symlink('../../secret', join(task, 'tests/out'))
  await symlink('/etc/passwd', join(task, 'tests/absolute'))
  await symlink('nowhere', join(task, 'tests/nowhere'))
  await symlink('circle', join(task, 'tests/circle'))
  await symlink('../tests', join(task, 'environment/folder'))
  execFileSync('/usr/bin/mkfifo', [join(task, 'solution')])

  const findings = await readFindings(readTask(await openFolderSource(task)))

  expect(summarizeFindings(findings).toSorted()).toEqual([
    'link_outside tests/absolute',
    'link_outside tests/circle',
    'link_outside tests/nowhere',
    'link_outside tests/out',
    'link_to_folder environment/folder',
    'special_file solution',
  ])
})
