"""MovieLens 1M: ratings of films (GroupLens, 2003). Its licence forbids passing it on.

FedOnce gives 9,992 one-hot identities to one party and 133 columns, which it does not describe, to the other. Here "who" holds the
two identities as categories (the encoding keeps the 63 most frequent of each, and `other`), and "what" what is known of person and film.
"""

from pathlib import Path

import polars as pl

from reticent.data.encoding import Declared
from reticent.data.labels import labels
from reticent.data.sets._shared import Found, bounds, chosen, file, values
from reticent.data.tables import Table
from reticent.errors import DataError

home = "https://grouplens.org/datasets/movielens/1m/"
files = {"https://files.grouplens.org/datasets/movielens/ml-1m.zip": "ml-1m.zip"}
by_hand = ""
licence = "for research, not to be redistributed, says its README"
rows = 1_000_209
aliases = ("ml-1m",)

genres = [
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
]
ages = (1, 18, 25, 35, 45, 50, 56)


def read(where: Path, label: str | None) -> Found:
    """ml-1m/{ratings,users,movies}.dat, fields apart by "::", in Latin-1."""
    name = chosen(label, ["rating"])
    ratings = table(file(where, "ml-1m/ratings.dat"), ["user", "movie", name, "timestamp"])
    users = table(file(where, "ml-1m/users.dat"), ["user", "gender", "age", "occupation", "zip"])
    movies = table(file(where, "ml-1m/movies.dat"), ["movie", "title", "genres"])
    films = movies.select(
        "movie",
        pl.col("title").str.extract(r"\((\d{4})\)\s*$").cast(pl.Int32).alias("year"),
        *[pl.col("genres").str.split("|").list.contains(genre).cast(pl.UInt8).alias(genre) for genre in genres],
    )
    whole = ratings.join(users, on="user", how="left", maintain_order="left").join(films, on="movie", how="left", maintain_order="left")
    regions = [str(i) for i in range(10)]
    what = whole.select(
        "gender",
        pl.col("age", "timestamp").cast(pl.Int64),
        "occupation",
        pl.col("zip").str.slice(0, 1).alias("region"),
        "year",
        *genres,
    )
    views = {"who": ["user", "movie"], "what": what.columns}
    declared = {
        **values(["user"], *map(str, range(1, 63))),  # 6,040 people and 3,952 films would be 9,992 columns; the rest is `other`
        **values(["movie"], *map(str, range(1, 63))),
        **values(["gender"], "F", "M"),
        "age": Declared(values=ages),
        **bounds(["timestamp"], 956_000_000, 1_050_000_000),
        **values(["occupation"], *map(str, range(21))),
        **values(["region"], *regions),
        **bounds(["year"], 1900, 2010),
        **values(genres, 0, 1),
        **bounds([name], 1, 5),
    }
    note = "identities are categories of two columns, folded to 64; FedOnce's 133 further columns are not described, these are ours"
    columns = pl.concat([whole.select("user", "movie"), what], how="horizontal")
    return Found(Table(columns), labels(whole[name].cast(pl.Float32), "regression", declared[name]), declared, None, views, note)


def table(path: Path, names: list[str]) -> pl.DataFrame:
    cells = [line.split("::") for line in path.read_text("latin-1").splitlines() if line]
    odd = next((i for i, row in enumerate(cells, 1) if len(row) != len(names)), None)
    if odd is not None:
        raise DataError(f"{path}: line {odd} has {len(cells[odd - 1])} fields where {len(names)} were expected")
    return pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String), orient="row")
