import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function createSshKey(passphrase = ''): { privateKey: string; publicKey: string } {
  const folder = mkdtempSync(join(tmpdir(), 'assay-key-'))
  const file = join(folder, 'key')
  try {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-f', file])
    return { privateKey: readFileSync(file, 'utf8'), publicKey: readFileSync(`${file}.pub`, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
