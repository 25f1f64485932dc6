import { html } from 'hono/html'
import { round } from './chart-scale.ts'
import type { Html } from './format.ts'

const WIDTH = 160
const toX = (percent: number): number => round((percent / 100) * WIDTH)

/** Draws an accuracy with its interval on a scale from 0 to 100 %. Hidden from screen readers, which read the numbers. */
export const drawInterval = (accuracy: number, ci95: { low: number; high: number } | null): Html =>
  html`<svg class="interval" viewBox="-6 0 ${WIDTH + 12} 18" width="${WIDTH}" height="18" aria-hidden="true"><rect class="scale" x="0" y="7" width="${WIDTH}" height="4" rx="2"/>${
    ci95
      ? html`<rect class="range" x="${toX(ci95.low)}" y="7" width="${toX(ci95.high - ci95.low)}" height="4" rx="2"/>`
      : ''
  }<circle class="value" cx="${toX(accuracy)}" cy="9" r="5"/></svg>`
