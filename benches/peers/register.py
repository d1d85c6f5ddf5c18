"""A register of businesses as a web service: Flask, SQLAlchemy, gunicorn and PostgreSQL.

This is what a team would write; used by `make bench-serve` to compare with.

    python register.py load DATABASE_URL FOLDER
    DATABASE_URL=... REGISTER_USER=... REGISTER_PASSWORD=... \\
        gunicorn -k gevent -w 2 --bind 127.0.0.1:8080 'register:make()'
"""

import csv
import hmac
import json
import os
import sys
import uuid
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, abort, jsonify, request
from sqlalchemy import ForeignKey, ForeignKeyConstraint, Identity, Index, Text, bindparam, create_engine, func, make_url, select, true, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, joinedload, load_only, mapped_column, relationship
from werkzeug.exceptions import HTTPException

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "business")
NAMES = ("runame1", "runame2", "runame3")
STYLES = ("tradstyle1", "tradstyle2", "tradstyle3")
REFERENCE_FIELDS = ("id", "sampleUnitRef", "sampleUnitType", "sampleSummaryId")
REQUIRED = ("sampleUnitRef", "sampleUnitType", "sampleSummaryId", *NAMES)
NOT_ACTIVE = "Business with reference does not have any active attributes."


# The schema.


class Base(DeclarativeBase):
    type_annotation_map = {str: Text}


class Business(Base):
    __tablename__ = "business"

    party_uuid: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    business_ref: Mapped[str] = mapped_column(unique=True)
    created_on: Mapped[datetime] = mapped_column(server_default=func.now(), deferred=True)
    associations: Mapped[list["BusinessRespondent"]] = relationship(order_by="BusinessRespondent.respondent_id")


class BusinessAttributes(Base):
    """One version of a business; a row with a collection exercise is active."""

    __tablename__ = "business_attributes"
    __table_args__ = (
        # Serves look-ups by business and finds the newest row at once.
        Index("business_attributes_business_id", "business_id", "created_on", "id"),
        Index("business_attributes_sample_summary_id", "sample_summary_id"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    business_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("business.party_uuid"))
    sample_summary_id: Mapped[str]
    collection_exercise: Mapped[str | None]
    attributes: Mapped[dict] = mapped_column(JSONB)
    created_on: Mapped[datetime] = mapped_column(server_default=func.now(), deferred=True)
    name: Mapped[str]
    trading_as: Mapped[str]


class Respondent(Base):
    __tablename__ = "respondent"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    party_uuid: Mapped[uuid.UUID] = mapped_column(unique=True)
    status: Mapped[str]
    email_address: Mapped[str] = mapped_column(unique=True)
    first_name: Mapped[str | None]
    last_name: Mapped[str | None]
    telephone: Mapped[str | None]


class BusinessRespondent(Base):
    __tablename__ = "business_respondent"

    business_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("business.party_uuid"), primary_key=True)
    respondent_id: Mapped[int] = mapped_column(ForeignKey("respondent.id"), primary_key=True, index=True)
    status: Mapped[str] = mapped_column(server_default="ACTIVE")
    respondent: Mapped[Respondent] = relationship()
    enrolments: Mapped[list["Enrolment"]] = relationship(order_by="Enrolment.survey_id")


class Enrolment(Base):
    __tablename__ = "enrolment"
    __table_args__ = (
        ForeignKeyConstraint(["business_id", "respondent_id"], ["business_respondent.business_id", "business_respondent.respondent_id"]),
    )

    business_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    respondent_id: Mapped[int] = mapped_column(primary_key=True)
    survey_id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]


# The queries. Built once: SQLAlchemy caches the compiled SQL, the objects need not be made anew either.

# One index seek per business for its newest active row.
Active = aliased(
    BusinessAttributes,
    select(BusinessAttributes)
    .where(BusinessAttributes.business_id == Business.party_uuid, BusinessAttributes.collection_exercise.is_not(None))
    .order_by(BusinessAttributes.created_on.desc(), BusinessAttributes.id.desc())
    .limit(1)
    .lateral(),
)

# Everything in one query, never one per business. A business has few respondents, so that a join repeats little;
# with selectinload (three queries) a request takes twice the processor time.
WITH_ASSOCIATIONS = joinedload(Business.associations).options(
    joinedload(BusinessRespondent.respondent, innerjoin=True).load_only(Respondent.party_uuid, Respondent.status),
    joinedload(BusinessRespondent.enrolments),
)

PARTIES = select(Business, Active).outerjoin(Active, true()).options(WITH_ASSOCIATIONS)
SUMMARIES = PARTIES.options(load_only(Active.sample_summary_id, Active.name, Active.trading_as))
BY_IDS = SUMMARIES.where(Business.party_uuid.in_(bindparam("ids", expanding=True)))
BY_ID = SUMMARIES.where(Business.party_uuid == bindparam("id"))
BY_REF = PARTIES.where(Business.business_ref == bindparam("ref"))
KNOWN = select(Business).where(Business.business_ref == bindparam("ref")).options(WITH_ASSOCIATIONS)
NEW = insert(Business).on_conflict_do_nothing().returning(Business.party_uuid)


# The shapes.


def summary(business_id, ref, version, associations):
    return {
        "id": str(business_id),
        "sampleUnitRef": ref,
        "sampleUnitType": "B",
        "sampleSummaryId": version.sample_summary_id,
        "name": version.name,
        "trading_as": version.trading_as,
        "associations": [
            {
                "partyId": str(association.respondent.party_uuid),
                "businessRespondentStatus": association.respondent.status,
                "enrolments": [{"surveyId": each.survey_id, "enrolmentStatus": each.status} for each in association.enrolments],
            }
            for association in associations
        ],
    }


def party(business_id, ref, version, associations):
    shape = summary(business_id, ref, version, associations)
    shape["attributes"] = {**version.attributes, "name": version.name, "trading_as": version.trading_as}
    return shape


def joined(body, keys):
    return " ".join(" ".join(body.get(key) or "" for key in keys).split())


def version_of(body):
    """The columns of an attributes row from a flat body."""
    return {
        "sample_summary_id": body["sampleSummaryId"],
        "attributes": {key: value for key, value in body.items() if key not in REFERENCE_FIELDS},
        "name": joined(body, NAMES),
        "trading_as": joined(body, STYLES),
    }


def identity(ref):
    return uuid.uuid5(NAMESPACE, ref)


def parsed(text):
    try:
        return uuid.UUID(text)
    except ValueError:
        abort(400, f"'{text}' is not a valid UUID format for property 'id'")


def problems(body):
    if not isinstance(body, dict):
        return ["a JSON object is expected"]
    found = [f"'{key}' is a required property" for key in REQUIRED if key not in body]
    found += [f"'{key}' is not a string" for key in (*REQUIRED, *STYLES) if not isinstance(body.get(key, ""), str)]
    if body.get("sampleUnitType", "B") not in ("B", "BI"):
        found.append(f"{body['sampleUnitType']!r} is not one of ['B', 'BI']")
    return found


# The service.


def make():
    """The application; gunicorn calls it once in every worker."""
    # Per worker, without overflow: workers times this must stay below max_connections, 15 is for six workers and 100.
    # As large as that allows: a request that waits for a connection may be overtaken again and again.
    size = int(os.environ.get("REGISTER_POOL", "15"))
    engine = create_engine(database(os.environ["DATABASE_URL"]), pool_size=size, max_overflow=0, pool_timeout=30, pool_use_lifo=True)
    reading = engine.execution_options(isolation_level="AUTOCOMMIT")  # no BEGIN, no COMMIT, same pool
    user = os.environ["REGISTER_USER"].encode()
    password = os.environ["REGISTER_PASSWORD"].encode()

    app = Flask(__name__)
    app.json.sort_keys = False

    @app.before_request
    def check():
        if request.endpoint == "info":
            return None
        given = request.authorization
        if given is not None and given.type == "basic":
            is_same_user = hmac.compare_digest((given.username or "").encode(), user)
            if hmac.compare_digest((given.password or "").encode(), password) and is_same_user:
                return None
        return Response("Unauthorized Access", 401, {"WWW-Authenticate": 'Basic realm="register"'}, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refused(error):
        return jsonify(description=error.description), error.code

    @app.errorhandler(PoolTimeout)
    def busy(error):
        app.logger.error("%s", error)
        return jsonify(description="All database connections are busy."), 503

    @app.errorhandler(Exception)
    def failed(error):
        app.logger.exception("Uncaught exception", exc_info=error)
        return jsonify({}), 500

    @app.get("/info")
    def info():
        return jsonify(name="register", version="1.0.0")

    @app.get("/businesses")
    def businesses():
        ids = [parsed(text) for text in request.args.getlist("id")]
        if not ids:
            abort(400, "The parameter id is required.")
        with Session(reading) as session:
            rows = session.execute(BY_IDS, {"ids": ids}).unique().all()
        if any(version is None for _, version in rows):
            abort(400, NOT_ACTIVE)
        return jsonify([summary(business.party_uuid, business.business_ref, version, business.associations) for business, version in rows])

    def business_or_refuse(query, values, unknown):
        with Session(reading) as session:
            row = session.execute(query, values).unique().first()
        if row is None:
            abort(404, unknown)
        if row[1] is None:
            abort(400, NOT_ACTIVE)
        return row

    @app.get("/businesses/id/<text>")
    def business_by_id(text):
        business, version = business_or_refuse(BY_ID, {"id": parsed(text)}, "Business with party id does not exist")
        return jsonify(summary(business.party_uuid, business.business_ref, version, business.associations))

    @app.get("/businesses/ref/<ref>")
    def business_by_ref(ref):
        business, version = business_or_refuse(BY_REF, {"ref": ref}, "Business with reference does not exist.")
        return jsonify(party(business.party_uuid, business.business_ref, version, business.associations))

    @app.post("/businesses")
    def add_business():
        body = request.get_json()
        found = problems(body)
        if found:
            abort(400, found)
        ref = body["sampleUnitRef"]
        with Session(engine, expire_on_commit=False) as session:
            business_id, associations = identity(ref), []
            if session.execute(NEW, {"party_uuid": business_id, "business_ref": ref}).first() is None:
                known = session.scalars(KNOWN, {"ref": ref}).unique().one()
                business_id, associations = known.party_uuid, known.associations
            version = BusinessAttributes(business_id=business_id, **version_of(body))
            session.add(version)
            session.commit()
        return jsonify(party(business_id, ref, version, associations))

    @app.put("/businesses/sample/link/<sample>")
    def link_sample(sample):
        body = request.get_json()
        if not isinstance(body, dict) or "collectionExerciseId" not in body:
            abort(400, "Missing parameter collectionExerciseId")
        rows = update(BusinessAttributes).where(BusinessAttributes.sample_summary_id == sample)
        with Session(engine) as session:
            session.execute(rows.values(collection_exercise=body["collectionExerciseId"]), execution_options={"synchronize_session": False})
            session.commit()
        return jsonify({**body, "sampleSummaryId": sample})

    return app


# The bulk load.

BATCH = 10_000


def database(url):
    return make_url(url).set(drivername="postgresql+psycopg")


def copy(cursor, target, rows):
    with cursor.copy(f"COPY {target} FROM STDIN") as stream:
        for row in rows:
            stream.write_row(row)


def lines(path):
    if path.exists():
        with path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield json.loads(line)


def batches(rows):
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def load(url, folder):
    """Loads a folder of files into an empty database, in one transaction."""
    engine = create_engine(database(url))
    Base.metadata.create_all(engine)
    connection = engine.raw_connection()
    cursor = connection.cursor()

    exercises = {link["sample"]: link["collectionExerciseId"] for link in lines(folder / "links.ndjson")}
    known = {}
    for batch in batches(lines(folder / "samples.ndjson")):
        fresh, versions = {}, []
        for body in batch:
            ref = body["sampleUnitRef"]
            if ref not in known:
                known[ref] = fresh[ref] = identity(ref)
            columns = version_of(body)
            sample = columns["sample_summary_id"]
            attributes = json.dumps(columns["attributes"], ensure_ascii=False)
            versions.append((known[ref], sample, exercises.get(sample), attributes, columns["name"], columns["trading_as"]))
        copy(cursor, "business (party_uuid, business_ref)", ((id, ref) for ref, id in fresh.items()))
        copy(cursor, "business_attributes (business_id, sample_summary_id, collection_exercise, attributes, name, trading_as)", versions)

    for batch in batches(lines(folder / "respondents.ndjson")):
        copy(
            cursor,
            "respondent (party_uuid, status, email_address, first_name, last_name, telephone)",
            (
                (
                    respondent["id"],
                    respondent.get("status") or "ACTIVE",
                    respondent["emailAddress"],
                    respondent.get("firstName"),
                    respondent.get("lastName"),
                    respondent.get("telephone"),
                )
                for respondent in batch
            ),
        )

    # The file knows respondents by uuid, the tables by number.
    cursor.execute("CREATE TEMP TABLE enrolling (business_id uuid, party_uuid uuid, survey_id text, status text) ON COMMIT DROP")
    if (folder / "enrolments.csv").exists():
        with (folder / "enrolments.csv").open(encoding="utf-8", newline="") as file:
            for batch in batches(csv.DictReader(file)):
                copy(cursor, "enrolling", ((row["business_id"], row["respondent_id"], row["survey_id"], row["status"]) for row in batch))
    cursor.execute(
        "INSERT INTO business_respondent (business_id, respondent_id)"
        " SELECT DISTINCT business_id, id FROM enrolling JOIN respondent USING (party_uuid)"
    )
    cursor.execute(
        "INSERT INTO enrolment (business_id, respondent_id, survey_id, status)"
        " SELECT business_id, id, survey_id, enrolling.status FROM enrolling JOIN respondent USING (party_uuid)"
    )
    connection.commit()

    connection.driver_connection.autocommit = True
    for table in Base.metadata.sorted_tables:
        cursor.execute(f"ANALYZE {table.name}")
        cursor.execute(f"SELECT count(*) FROM {table.name}")
        print(table.name, cursor.fetchone()[0])


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] != "load":
        sys.exit("usage: python register.py load DATABASE_URL FOLDER")
    load(sys.argv[2], Path(sys.argv[3]))
