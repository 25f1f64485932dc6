import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const SHA256_LENGTH = 64

/** Creates an empty bare repository with the object format of this id. */
export async function createEmptyRepository(gitDir: string, id: string | undefined): Promise<void> {
  await mkdir(join(gitDir, 'objects', 'info'), { recursive: true, mode: 0o700 })
  await mkdir(join(gitDir, 'refs'))
  await writeFile(join(gitDir, 'HEAD'), 'ref: refs/heads/none\n')
  const format = id?.length === SHA256_LENGTH ? '[extensions]\n\tobjectFormat = sha256\n' : ''
  await writeFile(join(gitDir, 'config'), `[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n${format}`)
}
