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

/** Adds `assay init`, which needs no server, sandbox or key. */
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
  const settingsFile = join(folder, 'task.toml')
  writeFileSync(settingsFile, renameSample(readFileSync(settingsFile, 'utf8'), basename(resolve(folder))))
  const path = quoteForShell(folder)
  print(
    shell,
    `${folder} has a task in ${language}. Change the instruction, the tests and the solution, then check them:`,
    `  assay check ${path}`,
    `  assay trial ${path} --harness oracle --expect pass`,
    `  assay trial ${path} --harness nop --expect fail`,
  )
}

const quoteForShell = (path: string): string =>
  /[^\w./-]/.test(path) ? `'${path.replaceAll("'", String.raw`'\''`)}'` : path

/** Returns the settings of a sample with the name of the new task and without fields that only describe the sample. */
const renameSample = (toml: string, name: string): string =>
  toml
    .replaceAll(/^(source|author_name|description|keywords|bug) = .*\n/gm, '')
    .replace(/^name = .*$/m, `name = "my/${name.toLowerCase().replaceAll(/[^a-z0-9._-]+/g, '-')}"`)
