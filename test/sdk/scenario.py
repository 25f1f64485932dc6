"""The scenario of sdk.test.ts in Python. Prints what it saw as JSON."""
import json
import os
import sys
import uuid

sys.path.insert(0, os.environ["ASSAY_SDK"])
from assay_sdk import Assay, AssayProblem  # noqa: E402

assay = Assay(os.environ["ASSAY_URL"], key=os.environ["ASSAY_KEY"])
org = assay.read_own_key()["org"]

benchmark = assay.add_benchmark(org, body={"reference": "assay/quick"})
catalog = assay.read_catalog_on_benchmark(org, "assay", "quick")
model = next(each for each in catalog["models"] if each["catalogId"] == "reference")
sandbox = next(each for each in catalog["sandboxes"] if each["id"] == "local")
request = {
    "id": str(uuid.uuid4()),
    "models": [{"catalogId": "reference", "credentialId": model["credentials"][0]["id"], "harnesses": ["oracle"]}],
    "sandbox": "local",
    "sandboxCredentialId": sandbox["credentials"][0]["id"],
}
quote = assay.quote_comparison_on_benchmark(org, "assay", "quick", body=request)
created = assay.create_comparison_on_benchmark(org, "assay", "quick", body=request)
states = []
ended = assay.wait_for_comparison(
    org, created["id"], benchmark="assay/quick", on_status=lambda status: states.append(status["state"])
)
trials = [
    trial
    for page in assay.pages(assay.list_trials_on_benchmark, org, "assay", "quick", created["id"], limit=2)
    for trial in page["trials"]
]
try:
    assay.read_benchmark(org, "no", "such")
    problem = None
except AssayProblem as error:
    problem = error.code

print(
    json.dumps(
        {
            "tasks": benchmark["tasks"],
            "quoted": quote["trials"],
            "state": ended["state"],
            "passed": ended["trials"]["passed"],
            "watched": len(states) > 0,
            "trials": len(trials),
            "problem": problem,
        }
    )
)
