"""A bank and two partners learn one model, in a notebook's three lines; what each said stands in the ledger.

python examples/quickstart.py
"""

import reticent as rt

partners = {"repayments": [f"PAY_{i}" for i in (0, 2, 3, 4, 5, 6)], "bills": [f"BILL_AMT{i}" for i in range(1, 7)]}
fed = rt.data.default_credit().split(host=["LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"], guests=partners)

with rt.fit("solo", fed) as alone, rt.fit("fedonce", fed, dim=3) as together:
    print(f"alone     AUC {alone.metrics['auc']:.3f}")
    print(f"together  AUC {together.metrics['auc']:.3f}, {together.ledger.rounds()} round, {together.ledger.bytes():,} bytes")
    print(f"the first five test customers' chances not to pay: {together.predict_proba(fed.test)[:5, 1]}")
    print(f"the report: {together.report('quickstart.html')}")
