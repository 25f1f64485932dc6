import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import about from '../../package.json' with { type: 'json' }
import { ROOT } from '../../scripts/files.ts'
import { canBoot, copyInto, type DebianRoot, openDebianRoot } from '../support/debian-root.ts'
import { hasPart, hasProgram, isLongRun } from '../support/parts.ts'

const UNIT = join(ROOT, 'deploy/systemd/assay.service')
/** From 0, locked down, to 10, unrestricted. Sandboxes of an ordinary user need namespaces and a delegated cgroup. */
const EXPOSURE_MAX = 3.6

test.runIf(hasProgram('systemd-analyze'))('the systemd unit confines the service as far as its sandboxes allow', () => {
  const analysis = ['security', '--offline=yes', '--no-pager', `--threshold=${EXPOSURE_MAX * 10}`, UNIT]
  const { status, stdout } = spawnSync('systemd-analyze', analysis, { encoding: 'utf8' })
  expect(status, stdout.split('\n').slice(-3).join('\n')).toBe(0)
})

describe.runIf(isLongRun() && hasPart('debootstrap') && hasPart('bwrap'))('the Debian package', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-deb-'))
  let root: DebianRoot
  const ran = async (script: string): Promise<string> => {
    const { code, output } = await root.shell(script)
    expect(code, output).toBe(0)
    return output.trim()
  }

  beforeAll(async () => {
    execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts'), folder], { stdio: 'ignore' })
    execFileSync(process.execPath, [join(ROOT, 'scripts/deb.ts'), folder], { stdio: 'ignore' })
    const file = readdirSync(folder).find((name) => name.endsWith('.deb')) ?? ''
    root = await openDebianRoot('bubblewrap', 'ca-certificates', 'git', 'libstdc++6', 'procps', 'systemd')
    await copyInto(root, join(folder, file), `root/${file}`)
    await ran('dpkg --install /root/assay_*.deb')
  }, 1_800_000)

  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true })
    await root[Symbol.asyncDispose]()
  })

  test('installs the command', async () => {
    expect(await ran('assay --version')).toBe(about.version)
    expect(await ran('! command -v node')).toBe('')
  })

  test('creates a user without a shell and an admin key that only root can read', async () => {
    expect(await ran('getent passwd assay')).toMatch(/:\/var\/lib\/assay:\/usr\/sbin\/nologin$/)
    expect(await ran('grep -c ^ASSAY_BOOTSTRAP_KEY=assay_ /etc/assay/assay.env')).toBe('1')
    expect(statSync(join(root.folder, 'etc/assay/assay.env')).mode & 0o777).toBe(0o600)
  })

  test('installs a unit that systemd accepts', async () => {
    expect(await ran('systemd-analyze verify --man=no assay.service 2>&1 | grep assay || true')).toBe('')
  })

  test('runs the demo', async () => {
    expect(await ran('cd /tmp && assay demo')).toMatch(/^custom\/scripted\|mini\|high +5\/5 +100\.0 %/m)
  })

  test.runIf(canBoot())('is started, restarted and stopped by systemd, and compares in its sandboxes', async () => {
    const client = '. /etc/assay/assay.env; export ASSAY_KEY=$ASSAY_BOOTSTRAP_KEY; cd /root;'
    const ready = 'for n in $(seq 300); do assay doctor --json | grep -q "ready at" && break; sleep 0.2; done;'
    {
      await using machine = await root.boot()
      const onMachine = async (script: string): Promise<string> => {
        const { code, output } = await machine.shell(script)
        expect(code, output).toBe(0)
        return output
      }
      await onMachine('echo ASSAY_ALLOW_HOST_BASE=1 >> /etc/assay/assay.env; systemctl enable --now assay')
      await onMachine(`${client} ${ready} assay benchmarks add assay/quick`)
      const compared = await onMachine(`${client} assay compare assay/quick --yes`)
      expect(compared).toMatch(/^reference\|oracle\|none +5\/5 +100\.0 %/m)
      expect(compared).toMatch(/^reference\|nop\|none +0\/5 +0\.0 %/m)

      await onMachine('kill -KILL $(systemctl show assay --property MainPID --value)')
      await onMachine('until [ "$(systemctl show assay --property NRestarts --value)" = 1 ]; do sleep 0.2; done')
      expect(await onMachine(`${client} ${ready} assay comparisons list assay/quick`)).toContain('completed')

      await onMachine('systemctl stop assay')
      expect(await onMachine('systemctl show assay --property Result')).toContain('Result=success')
      expect(await onMachine('ps -u assay -o pid= || true')).toBe('')
      await onMachine('systemctl start assay')
    }
    await using machine = await root.boot()
    const { output } = await machine.shell(`${client} ${ready} assay comparisons list assay/quick`)
    expect(output).toContain('completed')
  })

  test('keeps its settings through an upgrade and its data through a purge', async () => {
    const settings = await ran('cat /etc/assay/assay.env')
    await ran('dpkg --install /root/assay_*.deb')
    expect(await ran('cat /etc/assay/assay.env')).toBe(settings)
    await ran('install -d -o assay /var/lib/assay && touch /var/lib/assay/kept && dpkg --purge assay')
    expect(await ran('ls /var/lib/assay')).toContain('kept')
    expect(await ran('ls -d /usr/lib/assay /etc/assay 2>/dev/null || true')).toBe('')
  })
})
