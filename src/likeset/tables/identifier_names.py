"""Which names of columns speak of an identifier: whole words count, never letters inside a word.

A name is split at signs, at digits and where small letters turn into capitals: ``PatientID``, ``patient_id`` and
``patient.id`` are two words each, and ``valid`` is one that says nothing. Accents do not count.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum

__all__ = ["NameHint", "Strength", "name_hint", "words_of"]


class Strength(Enum):
    """How much a name alone says, and so what it takes to excuse it."""

    NAMELESS = "there is no name"
    ROW = "it counts rows, whatever is in it"
    PERSON = "it leads to a person"
    PLACE = "it says where somebody lives, or is"
    CODE = "it may lead to a person, or be a code that many share"


@dataclass(frozen=True, slots=True)
class NameHint:
    """What a column's name says.

    Attributes:
        strength: how much.
        word: the part of the name that says so; empty where there is no name.
    """

    strength: Strength
    word: str


def _words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROWS = re.compile(r"unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|row[ _.]?names?|level_0")
_ROW_WORDS = _words_in(
    "index idx row rownum rowno rownumber rowid zeile zeilennummer"
)  # a whole name that is one of them

_PERSON = _words_in(
    """
    identifier uuid guid uid pid kennung identifiant identificador
    usubjid subjid patno patid ptid patnum emailaddress
    ssn mrn nhs npi dni nif bsn cpf pesel tckn ahv svnr kvnr nss curp aadhaar personnummer cedula matricule
    codicefiscale passport passeport pasaporte reisepass ausweis
    surname forename firstname lastname fullname middlename maidenname username nickname login
    vorname nachname familienname nom prenom apellido apellidos nome cognome sobrenome
    naam voornaam achternaam imie nazwisko
    mail mails email emails phone phones telephone tel fax mobile telefon handy telefono telefone courriel correo
    address addr street adresse anschrift strasse rue direccion calle indirizzo endereco adres straat
    hausnummer huisnummer housenumber
    dob birthdate birthday dateofbirth geburtsdatum geburtstag geboortedatum
    iban creditcard kreditkarte kontonummer licenseplate numberplate numberplates kennzeichen vin imei imsi
    ipaddress ipaddr ipv macaddress url urls uri website
    telefonnummer versicherungsnummer patientennummer fallnummer kundennummer mitgliedsnummer steuernummer
    """
)
_PLACE = _words_in(
    """
    zip zipcode postcode postalcode postal plz postleitzahl codepostal pincode
    lat lon lng latitude longitude latitud longitud gps geohash coordinate coordinates
    """
)
_PLACES_ALONE = _words_in("city town village long")  # as a whole name; city_mpg is something else
_CODES_AT_THE_END = _words_in(
    "account konto device serial hash token ticket barcode accession specimen filename file path key ref reference"
)
_IDS = _words_in("id ids")
_NUMBERS = _words_in("no nr nbr num number nummer numero numer")
_NAMES = _words_in("name names")
_NAMES_AT_THE_END = _words_in("nombre")  # in Spanish; at the beginning it is a number, in French
_WHOSE = _words_in(
    """
    patient person people customer client member subject participant proband respondent user employee staff worker
    student pupil passenger guest tenant donor host physician doctor provider nurse citizen resident insured
    policyholder subscriber beneficiary driver voter taxpayer borrower applicant owner encounter case record policy
    insurance account passport license licence card phone telephone fax mobile contract claim transaction chart
    medical health social tax security national identity patienten
    versicherten versicherungs kunden fall konto personal steuer ausweis mitglieds telefon kranken paciente cliente
    """
)
"""What stands before id, number or name where these are somebody's own."""

_EVENTS = _words_in(
    "visit admission episode stay order study session"
)  # their ids are somebody's; numbers may count them

_SOMEBODY = _words_in(
    "patient person individual customer client subject participant proband respondent user member employee student"
)
_THINGS = _words_in(
    """
    drug product brand country state hospital ward department dept species class category feature column disease
    diagnosis procedure test company org organisation organization model event course school project variable site
    region district county medication device item store shop station unit type group team
    """
)
"""What stands before name where it is a thing's."""

_MEASURES = _words_in(
    """
    count counts length len size age type kind flag score rate ratio sum total mean avg amount duration days months
    years year month date time hours calls opens clicks service status change changes verified valid present known
    required level balance limit weight
    """
)
"""Last words that make a measure, or a kind, of whatever stands before them."""

_COUNTED = _words_in("is has had num number n nr no numero count total days avg mean max min sum percent pct")
"""First words that make a count, or yes or no, of whatever comes after them."""

_PAIRS = (
    (_words_in("birth born geburts"), _words_in("date day dt time datum tag")),
    (_words_in("license licence number car"), _words_in("plate plates")),
    (_words_in("ip mac"), _words_in("address addr source src client host")),
    (_words_in("code"), _words_in("postal")),
    (_words_in("credit"), _words_in("card")),
)
_BIRTHS = _words_in("naissance nacimiento nascita nascimento")
_NO_DAYS = _words_in(
    "annee ano anno poids peso lieu lugar luogo pays pais paese"
)  # year, weight, place, country of birth
_SUFFIXES = ("identifier", "number", "nummer", "name", "nbr", "id", "no", "nr")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in small letters, without accents and digits."""
    plain = "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", plain)
    # A digit right behind no or nr belongs to it: NO2 is a gas.
    return tuple(re.findall(r"(?:no|nr)\d+|[^\W\d_]+", apart.casefold()))


def name_hint(name: str) -> NameHint | None:
    """What a name says about identifiers; None if it says nothing."""
    stripped = name.strip()
    if not stripped:
        return NameHint(Strength.NAMELESS, "")
    if _ROWS.fullmatch(stripped.casefold()):
        return NameHint(Strength.ROW, stripped)
    words = words_of(stripped)
    if not words:
        return None
    whole = "".join(words)
    if whole in _ROW_WORDS or (words[0] == "row" and set(words[1:]) <= _NUMBERS | _IDS):
        return NameHint(Strength.CODE, stripped)
    for rule in (_pair, _measure, _single, _role):
        answer = rule(words)
        if answer is not None:
            return answer if answer.word else None
    return None


_NOTHING = NameHint(Strength.CODE, "")
"""An answer that ends the questions: the name speaks of something else."""


def _pair(words: tuple[str, ...]) -> NameHint | None:
    for firsts, seconds in _PAIRS:
        first, second = firsts & set(words), seconds & set(words)
        if first and second:
            return NameHint(Strength.PERSON, " ".join(word for word in words if word in first | second))
    return NameHint(Strength.PERSON, words[0]) if words in (("birth",), ("ip",)) else None


def _measure(words: tuple[str, ...]) -> NameHint | None:
    measured = len(words) > 1 and (words[0] in _COUNTED or words[-1] in _MEASURES)
    return _NOTHING if measured else None


def _single(words: tuple[str, ...]) -> NameHint | None:
    for word in words:
        if word in _PERSON or (word in _BIRTHS and not _NO_DAYS & set(words)):
            return NameHint(Strength.PERSON, word)
        if word in _PLACE:
            return NameHint(Strength.PLACE, word)
    if len(words) == 1 and words[0] in _PLACES_ALONE:
        return NameHint(Strength.PLACE, words[0])
    if len(words) == 1 and words[0] in _SOMEBODY:
        return NameHint(Strength.PERSON, words[0])
    return None


def _role(words: tuple[str, ...]) -> NameHint | None:
    """Id, number or name, and whose it is."""
    for position, word in enumerate(words):
        before = words[position - 1] if position else ""
        if word in _IDS:
            mine = len(words) == 1 or before in _WHOSE | _EVENTS or (position == 0 and words[1] in _NUMBERS | {"card"})
            return NameHint(Strength.PERSON if mine else Strength.CODE, word)
        if word in _NAMES:
            return NameHint(Strength.CODE if before in _THINGS else Strength.PERSON, word)
        if word in _NUMBERS and position and position == len(words) - 1:
            mine = before in _WHOSE
            return NameHint(Strength.PERSON if mine else Strength.CODE, word) if mine or word != "num" else None
        for suffix in _SUFFIXES:
            if word.endswith(suffix) and word.removesuffix(suffix) in _WHOSE | _EVENTS:
                return NameHint(Strength.PERSON, word)
    if words[-1] in _NAMES_AT_THE_END:
        return NameHint(Strength.PERSON, words[-1])
    return NameHint(Strength.CODE, words[-1]) if words[-1] in _CODES_AT_THE_END else None
