import { type ReactNode, useEffect, useRef } from 'react'
import { replaceUnsafeCharacters, stripAnsi } from '../../../src/platform/terminal-text.ts'
import { useRows } from './use-rows.ts'

type VirtualLinesProps = {
  label: string
  lines: readonly string[]
  /** Class of a line, for example its colour in a diff. */
  classOf?: (line: string) => string | undefined
  /** Index of the line to scroll to and to mark. */
  targetIndex?: number | undefined
  /** Renders a line with colours. Unsafe characters have been replaced; the result must have the same text. */
  renderLine?: ((line: string, index: number) => ReactNode) | undefined
}

const LINE_HEIGHT_PX = 20
/** Height of the borders and of a horizontal scroll bar. */
const FRAME_PX = 18
/** Longer lines are cut, because browsers lay out very long lines slowly. */
const LINE_LENGTH_MAX = 2000

/** Shows the lines of an untrusted text as plain text. Only the visible lines are in the document. */
export function VirtualLines({ label, lines, classOf, targetIndex, renderLine }: VirtualLinesProps) {
  const region = useRef<HTMLElement>(null)
  const virtualizer = useRows(region, { count: lines.length, rowPx: LINE_HEIGHT_PX, overscan: 12 })
  useEffect(() => {
    if (targetIndex !== undefined) virtualizer.scrollToIndex(targetIndex, { align: 'start' })
  }, [targetIndex, virtualizer])
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
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const line = lines[index] ?? ''
          const shownLine = toShownLine(line)
          const classNames = ['line', classOf?.(line), index === targetIndex ? 'target' : undefined]
          return (
            <div
              key={index}
              className={classNames.filter(Boolean).join(' ')}
              style={{ transform: `translateY(${start}px)` }}
            >
              <span className="line-number" aria-hidden="true">
                {index + 1}
              </span>
              <bdi>{renderLine ? renderLine(shownLine, index) : shownLine}</bdi>
            </div>
          )
        })}
      </div>
    </section>
  )
}

function toShownLine(line: string): string {
  const shown = replaceUnsafeCharacters(stripAnsi(line.slice(0, LINE_LENGTH_MAX)).replace(/\r$/, ''))
  return line.length > LINE_LENGTH_MAX ? `${shown} … ${line.length - LINE_LENGTH_MAX} more characters` : shown
}
