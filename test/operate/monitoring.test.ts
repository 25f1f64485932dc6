import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from '../../scripts/files.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { scratchFolder } from '../support/assay-command.ts'
import { type ServiceProcess, startService } from '../support/service.ts'

const FOLDER = join(ROOT, 'deploy/monitoring')
const ALERTS = join(FOLDER, 'alerts.yaml')
const hasPromtool = spawnSync('promtool', ['--version']).status === 0

type Panel = { title: string; targets: { expr: string }[] }
const dashboard: { panels: Panel[] } = JSON.parse(readFileSync(join(FOLDER, 'grafana-dashboard.json'), 'utf8'))
const alerts: { groups: { rules: { alert: string; expr: string }[] }[] } = parse(readFileSync(ALERTS, 'utf8'))

const scratch = scratchFolder()
const operatorKey = newKey()
let service: ServiceProcess
let exposed: Set<string>

beforeAll(async () => {
  service = await startService('serve', ['--data', scratch.path, '--port', '0'], {
    ASSAY_OPERATOR_KEY: operatorKey,
    ASSAY_SANDBOXES: 'local',
  })
  const answer = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${operatorKey}` } })
  exposed = new Set([...(await answer.text()).matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name))
}, 120_000)
afterAll(async () => {
  await service?.kill('SIGTERM')
  scratch.remove()
})

/** Returns the names of metrics in an expression. Suffixes of histograms are removed. */
const listMetrics = (expr: string): string[] =>
  [...expr.matchAll(/\bassay_\w+/g)].map(([name]) => name.replace(/_(bucket|sum|count)$/, ''))

test('every metric of the dashboard and of the alerts exists in a running service', () => {
  const expressions = [
    ...dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...alerts.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr)),
  ]
  const named = new Set(expressions.flatMap(listMetrics))
  expect(named.size).toBeGreaterThan(12)
  expect([...named].filter((name) => !exposed.has(name))).toEqual([])
})

test('every metric of our own is on the dashboard', () => {
  const shown = new Set(dashboard.panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => listMetrics(expr))))
  const own = [...exposed].filter((name) => !/^assay_(nodejs|process)_/.test(name) && name !== 'assay_disk_size_bytes')
  expect(own.filter((name) => !shown.has(name))).toEqual([])
})

test.runIf(hasPromtool)('Prometheus accepts the alert rules', () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', ALERTS], { encoding: 'utf8' })
  expect(status, stdout + stderr).toBe(0)
})
