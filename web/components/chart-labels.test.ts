import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Box, type ChartPoint, type PlacedLabel, placeLabels } from './chart-labels.ts'

const PLOT: Box = { left: 46, top: 14, right: 910, bottom: 354 }
/** Height of a line of text above and below its baseline. */
const [ABOVE, BELOW] = [12, 4]

const point = fc.record({
  x: fc.integer({ min: PLOT.left, max: PLOT.right }),
  y: fc.integer({ min: PLOT.top, max: PLOT.bottom }),
  width: fc.integer({ min: 10, max: 300 }),
  text: fc.constant('label'),
})

function toBox({ x, y, anchor }: PlacedLabel, { width }: ChartPoint): Box {
  const left = anchor === 'start' ? x : anchor === 'end' ? x - width : x - width / 2
  return { left, right: left + width, top: y - ABOVE, bottom: y + BELOW }
}

const intersects = (a: Box, b: Box): boolean =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom

test('labels overlap neither each other nor another point, and stay inside the plot', () => {
  fc.assert(
    fc.property(fc.array(point, { maxLength: 25 }), (points) => {
      const placed = placeLabels(points, PLOT).flatMap((label, index) => {
        const own = points[index]
        return label && own ? [{ box: toBox(label, own), own }] : []
      })
      for (const [index, { box, own }] of placed.entries()) {
        expect(box.left >= PLOT.left && box.right <= PLOT.right && box.top >= PLOT.top).toBe(true)
        expect(placed.slice(index + 1).some((other) => intersects(box, other.box))).toBe(false)
        const others = points.filter((other) => other !== own)
        expect(
          others.some(({ x, y }) => intersects(box, { left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 })),
        ).toBe(false)
      }
    }),
    { seed: 7, numRuns: 300 },
  )
})

test('a single point always has its label', () => {
  expect(placeLabels([{ x: 400, y: 200, width: 120, text: 'Large' }], PLOT)[0]?.text).toBe('Large')
})

test('labels without room are dropped', () => {
  const crowd = Array.from({ length: 40 }, () => ({ x: 400, y: 200, width: 200, text: 'Large' }))
  expect(placeLabels(crowd, PLOT).filter((label) => label !== undefined).length).toBeLessThan(40)
})
