import type { ReactNode } from 'react'

type DataTableProps = { label: string; heads: readonly string[]; children: ReactNode }

/**
 * A table that scrolls within its card. A head that starts with `#` marks a column of numbers, an empty one a column
 * of controls.
 */
export function DataTable({ label, heads, children }: DataTableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls must be reachable by keyboard
    <section className="table-scroll" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} className={head.startsWith('#') ? 'number' : undefined}>
                {head === '' ? <span className="hidden">Actions</span> : head.replace(/^#/, '')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  )
}
