"""temporary"""
from numdebug.explain.claims import Claim


def explain(items, language="en"):
    out=[]
    for n,d in enumerate(items.report.diagnoses,1):
        out.append(Claim("cause",(f"D{n}",),(f"D{n}",),d.because))
        if d.fix: out.append(Claim("fix",(f"D{n}.fix",),(f"D{n}.fix",),d.fix.summary,d.fix.diff))
    out.append(Claim("evidence",("RUN",),("RUN",),items.report.verdict))
    return out
