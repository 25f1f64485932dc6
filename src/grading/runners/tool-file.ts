import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ToolFile } from './runner.ts'

/** A program of the folder `files`, under the name that the command knows it by. */
export const toolFile = (file: string, name: string): ToolFile => ({
  name,
  text: readFileSync(join(import.meta.dirname, 'files', file), 'utf8'),
})
