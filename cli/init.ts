import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { WrongUse } from './failure.ts'
import { withExample, withGlobals } from './help.ts'
import { print, type Shell } from './shell.ts'

const SAMPLES = join(import.meta.dirname, '../samples/tasks')

/** Sample tasks that new tasks start from, by language. */
const TEMPLATES = {
  bash: 'greet-in-bash',
  c: 'reverse-words-in-c',
  go: 'roman-numerals-in-go',
  node: 'parse-durations-in-node',
  python: 'fix-the-median-in-python',
}
type TemplateLanguage = keyof typeof TEMPLATES

/** Writes a new task that passes all checks. Needs no server, sandbox or key. */
export function addInitCommand(assay: Command, shell: Shell): void {
  withExample(
    withGlobals(assay.command('init'))
      .description('Write a new task that works, to be changed into your own')
      .argument('<folder>', 'Folder of the new task; must be empty or not exist')
      .addOption(
        new Option('--language <language>', 'Language of the task').choices(Object.keys(TEMPLATES)).default('bash'),
      )
      .action((folder: string, { language }: { language: TemplateLanguage }) => init(shell, folder, language)),
    'assay init ./my-task --language python',
  )
}

function init(shell: Shell, folder: string, language: TemplateLanguage): void {
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new WrongUse(`${folder} is not empty. Choose another folder, or empty it.`)
  cpSync(join(SAMPLES, TEMPLATES[language]), folder, { recursive: true })
  const settings = join(folder, 'task.toml')
  writeFileSync(settings, toOwnSettings(readFileSync(settings, 'utf8'), basename(resolve(folder))))
  const path = /[^\w./-]/.test(folder) ? `'${folder.replaceAll("'", String.raw`'\''`)}'` : folder
  print(
    shell,
    `${folder} has a task in ${language}. Change the instruction, the tests and the solution, then check them:`,
    `  assay check ${path}`,
    `  assay trial ${path} --harness oracle --expect pass`,
    `  assay trial ${path} --harness nop --expect fail`,
  )
}

/** Names the task after its folder, and drops what only describes the sample. */
const toOwnSettings = (toml: string, name: string): string =>
  toml
    .replaceAll(/^(source|author_name|description|keywords|bug) = .*\n/gm, '')
    .replace(/^name = .*$/m, `name = "my/${name.toLowerCase().replaceAll(/[^a-z0-9._-]+/g, '-')}"`)
