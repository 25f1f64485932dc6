import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import type { HealthCheck } from '../../../src/workspaces/schema.ts'
import { DataTable } from '../components/data-table.tsx'

/** Health checks with their state, and how to fix those that fail. */
export const ChecksTable = ({ label, checks }: { label: string; checks: readonly HealthCheck[] }) => (
  <DataTable label={label} heads={['Check', 'State', 'Detail', 'Fix']}>
    {checks.map(({ name, ok, detail, fix }) => (
      <tr key={name}>
        <td>{name}</td>
        <td className={ok ? 'pass-mark' : 'fail-mark'}>{ok ? '✓ passes' : '× fails'}</td>
        <td>
          <bdi>{replaceUnsafeCharacters(detail)}</bdi>
        </td>
        <td className="muted">{!ok && fix && <bdi>{replaceUnsafeCharacters(fix)}</bdi>}</td>
      </tr>
    ))}
  </DataTable>
)
