"""The privacy of a run in words and numbers. No ε without what it covers; where nothing was noised, that is what it says."""

from typing import Any

from reticent.ledger import Ledger


def of_run(ledger: Ledger, host: str, guests: tuple[str, ...], looked: str, simulated: bool) -> dict[str, Any]:  # Any: JSON
    """The JSON of a run without a privacy target."""
    bare = sum(count for party, count in ledger.bare.items() if party in guests)
    told = sum(count for party, count in ledger.bare.items() if party == host)
    if ledger.spent:
        sentences = [
            f"{len(ledger.spent)} noised releases are in the ledger, but no target was set: what they add up to is not claimed, and epsilon counts as infinite."
        ]
    else:
        sentences = ["No noise was added anywhere: there is no differential privacy, so epsilon is infinite against whoever is shown the model."]
    if simulated:
        sentences.append("All columns were in one place: this is a simulation of what nobody may do.")
    elif not guests:
        sentences.append("Nobody but the host took part, and nothing left it.")
    else:
        sentences.append(
            f"{host} heard {bare} un-noised letters from {', '.join(guests)}: against the host their rows have no protection beyond the number of values a letter holds."
        )
        if told:
            sentences.append(f"The guests heard {told} un-noised letters from {host}; the ledger says what each reveals.")
        elif looked:
            sentences.append(
                f"The guests heard which rows train, and this mask was drawn by {looked}, so it tells of them: epsilon is infinite against guests, though few could read it."
            )
        else:
            sentences.append("The guests heard which rows train, drawn without a look at anybody's data, and nothing else.")
    sentences.append("Not covered: which people are in the common rows, test metrics, and the figures of baselines.")
    against_guests: float | str = "inf" if guests and (told or looked) else 0
    return {
        "against": "public", "epsilon": "inf", "delta": None, "adjacency": None, "statement": " ".join(sentences),
        "others": [{"against": "host", "epsilon": "inf" if bare or simulated else 0}, {"against": "guests", "epsilon": against_guests}],
    }  # fmt: skip
