/** A block of docs/releases.md that needs a published release. */
export const READS_A_RELEASE = `curl -sf "$ASSAY_URL/api/public/results/lab/demo"
curl -sf "$ASSAY_URL/api/public/results/lab/demo/history"`
