import { html } from 'hono/html'
import type { SettingSummary } from '../../src/results/schema.ts'
import { round } from './chart-scale.ts'
import type { Html } from './format.ts'

const [WIDTH, HEIGHT, EDGE] = [96, 40, 5]

/** Draws a frontier as a small step line without axes. The numbers beside it are its text. */
export function drawSparkFrontier(frontier: readonly SettingSummary[]): Html {
  const [first, ...rest] = frontier
  if (!first) return html``
  const costs = frontier.map(({ costPerTaskUsd }) => Math.log10(Math.max(costPerTaskUsd, 1e-6)))
  const [low, high] = [Math.min(...costs), Math.max(...costs)]
  const toX = ({ costPerTaskUsd }: SettingSummary): number =>
    round(EDGE + ((Math.log10(Math.max(costPerTaskUsd, 1e-6)) - low) / (high - low || 1)) * (WIDTH - 4 * EDGE))
  const accuracies = frontier.map(({ accuracy }) => accuracy)
  const [worst, best] = [Math.min(...accuracies), Math.max(...accuracies)]
  const toY = ({ accuracy }: SettingSummary): number =>
    round(HEIGHT - EDGE - ((accuracy - worst) / (best - worst || 1)) * (HEIGHT - 2 * EDGE))
  const steps = rest.map((each) => `H${toX(each)}V${toY(each)}`).join('')
  return html`<svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" aria-hidden="true"><path class="steps" d="M${toX(first)},${toY(first)}${steps}H${WIDTH - EDGE}"/>${frontier.map(
    (each) => html`<circle cx="${toX(each)}" cy="${toY(each)}" r="3"/>`,
  )}</svg>`
}
