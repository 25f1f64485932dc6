import type { Fields } from './fields.ts'
import type { PackageInfo } from './task.ts'

const NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]*\/[a-zA-Z0-9][a-zA-Z0-9._-]*$/
const NAME_LENGTH_MAX = 200

/** `[task]`: who the task is in a registry. */
export function readPackage(fields: Fields): PackageInfo {
  const name = fields.requiredText('name')
  if (!isPackageName(name)) fields.refuse('name', 'invalid_value', 'A name like org/name is expected here.')
  const version = fields.text('version') ?? null
  if (version === '') fields.refuse('version', 'invalid_value', 'A version must not be empty.')
  return {
    name,
    version,
    description: fields.text('description') ?? '',
    authors: fields.tables('authors', readAuthor) ?? [],
    keywords: fields.texts('keywords') ?? [],
  }
}

const isPackageName = (name: string): boolean =>
  name.length <= NAME_LENGTH_MAX && NAME.test(name) && !name.includes('..')

const readAuthor = (fields: Fields): PackageInfo['authors'][number] => ({
  name: fields.requiredText('name'),
  email: fields.text('email') ?? null,
})
