import { type ReactNode, useEffect, useRef } from 'react'
import { replaceUnsafeCharacters, stripAnsi } from '../../../src/platform/terminal-text.ts'
import { useRows } from './use-rows.ts'

type VirtualLinesProps = {
  label: string
  lines: readonly string[]
  /** Class of a line, for example its colour in a diff. */
  classOf?: (line: string) => string | undefined
  /** Line to scroll to, from 0. */
  target?: number | undefined
  /** Renders a line with colours. The line is safe to show; elements must contain nothing but its text. */
  renderLine?: ((line: string, index: number) => ReactNode) | undefined
}

const LINE_HEIGHT_PX = 20
/** Borders, and a horizontal scroll bar. */
const FRAME_PX = 18
const LINE_LENGTH_MAX = 2000

/** Shows the lines of an untrusted text as plain text. Only the visible lines are in the document. */
export function VirtualLines({ label, lines, classOf, target, renderLine }: VirtualLinesProps) {
  const region = useRef<HTMLElement>(null)
  const virtualizer = useRows(region, { count: lines.length, rowPx: LINE_HEIGHT_PX, overscan: 12 })
  useEffect(() => {
    if (target !== undefined) virtualizer.scrollToIndex(target, { align: 'start' })
  }, [target, virtualizer])
  return (
    <section
      className="lines"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable without a mouse
      tabIndex={0}
      ref={region}
      style={{ height: lines.length * LINE_HEIGHT_PX + FRAME_PX }}
    >
      <div style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => (
          <div
            key={index}
            className={['line', classOf?.(lines[index] ?? ''), index === target && 'target'].filter(Boolean).join(' ')}
            style={{ transform: `translateY(${start}px)` }}
          >
            <span className="line-number" aria-hidden="true">
              {index + 1}
            </span>
            <bdi>
              {renderLine ? renderLine(toShownLine(lines[index] ?? ''), index) : toShownLine(lines[index] ?? '')}
            </bdi>
          </div>
        ))}
      </div>
    </section>
  )
}

function toShownLine(line: string): string {
  const shown = replaceUnsafeCharacters(stripAnsi(line.slice(0, LINE_LENGTH_MAX)).replace(/\r$/, ''))
  return line.length > LINE_LENGTH_MAX ? `${shown} … ${line.length - LINE_LENGTH_MAX} more characters` : shown
}
