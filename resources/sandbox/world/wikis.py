"""The languages and wikis of the service, in the order in which it lists them: facts, one line per language.

A line is `code|English name|own name|wikis` and, for every wiki that is not called as in English, `|letter name`.

- The own name is empty where it is the English one, and begins with `<` where the language is written from right to left.
- The wikis are letters of FAMILIES, in the order of the list; two languages have a code and no wiki.
- Database name, address and language of a wiki follow from the language code and the family (`reference`).
"""

# The letters of all scripts are here on purpose.
# ruff: noqa: RUF001

#: Letter, code and English name of a family of wikis.
FAMILIES = {
    "w": ("wiki", "Wikipedia"),
    "t": ("wiktionary", "Wiktionary"),
    "b": ("wikibooks", "Wikibooks"),
    "n": ("wikinews", "Wikinews"),
    "q": ("wikiquote", "Wikiquote"),
    "s": ("wikisource", "Wikisource"),
    "v": ("wikiversity", "Wikiversity"),
    "y": ("wikivoyage", "Wikivoyage"),
}

LANGUAGES = """\
cv|Chuvash|чӑвашла|wb|w Википеди
id|Indonesian|Bahasa Indonesia|wtbqs|b Wikibuku|q Wikikutip
vi|Vietnamese|Tiếng Việt|wtbqsy
dv|Divehi|<ދިވެހިބަސް|wt|w ވިކިޕީޑިއާ|t ވިކިރަދީފު
new|Newari|नेपाल भाषा|w
rw|Kinyarwanda|Ikinyarwanda|wt
srn|Sranan Tongo|Sranantongo|w
eo|Esperanto||wtbnqsy|w Vikipedio|t Vikivortaro|b Vikilibroj|n Vikinovaĵoj|q Vikicitaro|s Vikifontaro|y Vikivojaĝo
kv|Komi|коми|w
mzn|Mazanderani|<مازِرونی|w|w ویکی‌پدیا
nah|Nāhuatl||wtb|w Huiquipedia
ne|Nepali|नेपाली|wtb|w विकिपिडिया|b विकिपुस्तक
nqo|N’Ko|<ߒߞߏ|w|w ߥߞߌߔߘߋߞߎ
tr|Turkish|Türkçe|wtbnqsy|w Vikipedi|t Vikisözlük|b Vikikitap|n Vikihaber|q Vikisöz|s Vikikaynak|y Vikigezgin
gn|Guarani|Avañe'ẽ|wtb|w Vikipetã
ha|Hausa||wt
it|Italian|italiano|wtbnqsvy|t Wikizionario|n Wikinotizie|v Wikiversità
lt|Lithuanian|lietuvių|wtbqs|w Vikipedija|t Vikižodynas|s Vikišaltiniai
mo|Moldovan|молдовеняскэ|
tn|Tswana|Setswana|wt
am|Amharic|አማርኛ|wtq|w ውክፔዲያ
bug|Buginese|Basa Ugi|w
ch|Chamorro|Chamoru|wtb
ml|Malayalam|മലയാളം|wtbqs|w വിക്കിപീഡിയ|t വിക്കിനിഘണ്ടു|b വിക്കിപാഠശാല|q വിക്കിചൊല്ലുകൾ|s വിക്കിഗ്രന്ഥശാല
nrm|Norman|Nouormand|w
nv|Navajo|Diné bizaad|w
scn|Sicilian|sicilianu|wt|t Wikizziunariu
yi|Yiddish|<ייִדיש|wts|w װיקיפּעדיע|t װיקיװערטערבוך|s װיקיביבליאָטעק
shi|Tachelhit|Taclḥit|w
als|Alemannisch||w
ary|Moroccan Arabic|<الدارجة|w|w ويكيپيديا
btm|Batak Mandailing||t|t Wikikamus
cdo|Min Dong Chinese|閩東語 / Mìng-dĕ̤ng-ngṳ̄|w
ja|Japanese|日本語|wtbnqsvy|n ウィキニュース|v ウィキバーシティ|y ウィキボヤージュ
kbp|Kabiye|Kabɩyɛ|w|w Wikipediya
oc|Occitan|occitan|wtb|w Wikipèdia|t Wikiccionari|b Wikilibres
skr|Saraiki|<سرائیکی|wt|w وکیپیڈیا|t وکشنری
vo|Volapük||wtbq|w Vükiped|t Vükivödabuk|b Vükibuks
din|Dinka|Thuɔŋjäŋ|w
ff|Fula|Fulfulde|w
lld|Ladin||w
nov|Novial||w
ur|Urdu|<اردو|wtbq|w ویکیپیڈیا|t ویکی لغت|b ویکی کتب|q ویکی اقتباس
zea|Zeelandic|Zeêuws|w
fat|Fanti|mfantse|w
frp|Arpitan|arpetan|w|w Vouiquipèdia
inh|Ingush|гӀалгӀай|w|w Википеди
pi|Pali|पालि|wt
kn|Kannada|ಕನ್ನಡ|wtbqs|w ವಿಕಿಪೀಡಿಯ|t ವಿಕ್ಷನರಿ|q ವಿಕಿಕೋಟ್|s ವಿಕಿಸೋರ್ಸ್
no|Norwegian|norsk|wtbnqs|b Wikibøker|n Wikinytt|s Wikikilden
rn|Rundi|ikirundi|wt
ln|Lingala|lingála|wtb
ps|Pashto|<پښتو|wtby|w ويکيپېډيا|t ويکيسيند|b ويکيتابونه|y ويکيسفر
sv|Swedish|svenska|wtbnqsvy
war|Waray|Winaray|w
cho|Choctaw|Chahta anumpa|w
smn|Inari Sami|anarâškielâ|w
uk|Ukrainian|українська|wtbnqsy|w Вікіпедія|t Вікісловник|b Вікіпідручник|n Вікіновини|q Вікіцитати|s Вікіджерела|y Вікімандри
vls|West Flemish|West-Vlams|w
fa|Persian|<فارسی|wtbnqsy|w ویکی‌پدیا|t ویکی‌واژه|b ویکی‌کتاب|n ویکی‌خبر|q ویکی‌گفتاورد|s ویکی‌نبشته|y ویکی‌سفر
or|Odia|ଓଡ଼ିଆ|wts|w ଉଇକିପିଡ଼ିଆ|t ଉଇକିଅଭିଧାନ|s ଉଇକିପାଠାଗାର
zh-min-nan|Chinese (Min Nan)|Bân-lâm-gú|wtbqs|s Wiki Tô·-su-kóan
cbk-zam|Chavacano|Chavacano de Zamboanga|w
chy|Cheyenne|Tsetsêhestâhese|w|w Tsétsêhéstâhese Wikipedia
de|German|Deutsch|wtbnqsvy
kaa|Kara-Kalpak|Qaraqalpaqsha|w
pap|Papiamento|Papiamentu|w
se|Northern Sami|davvisámegiella|wb
fi|Finnish|suomi|wtbnqsvy|t Wikisanakirja|b Wikikirjasto|n Wikiuutiset|q Wikisitaatit|s Wikiaineisto|v Wikiopisto|y Wikimatkat
ki|Kikuyu|Gĩkũyũ|w
mwl|Mirandese|Mirandés|w|w Biquipédia
pcm|Nigerian Pidgin|Naijá|w
ext|Extremaduran|estremeñu|w|w Güiquipeya
haw|Hawaiian|Hawaiʻi|w
nia|Nias|Li Niha|wt
ru|Russian|русский|wtbnqsvy|w Википедия|t Викисловарь|b Викиучебник|n Викиновости|q Викицитатник|s Викитека|v Викиверситет
nn|Norwegian Nynorsk|norsk nynorsk|wtq
ay|Aymara|Aymar aru|wtb
gd|Scottish Gaelic|Gàidhlig|wt|w Uicipeid
roa-tara|Tarantino|tarandíne|w
sat|Santali|ᱥᱟᱱᱛᱟᱲᱤ|w|w ᱣᱤᱠᱤᱯᱤᱰᱤᱭᱟ
su|Sundanese|Sunda|wtbq
bm|Bambara|bamanankan|wtbq
ee|Ewe|eʋegbe|w
he|Hebrew|<עברית|wtbnqsy|w ויקיפדיה|t ויקימילון|b ויקיספר|n ויקיחדשות|q ויקיציטוט|s ויקיטקסט|y ויקימסע
jam|Jamaican Creole English|Patois|w|w Wikipidia
ug|Uyghur|<ئۇيغۇرچە / Uyghurche|wtbq
xh|Xhosa|isiXhosa|wtb
as|Assamese|অসমীয়া|wtbqs|w অসমীয়া ৱিকিপিডিয়া|q ৱিকিউদ্ধৃতি|s ৱিকিউৎস
az|Azerbaijani|azərbaycanca|wtbqs|w Vikipediya|b Vikikitab|q Vikisitat|s Vikimənbə
blk|Pa'O|ပအိုဝ်ႏဘာႏသာႏ|w|w ဝီခီပီးဒီးယား
lb|Luxembourgish|Lëtzebuergesch|wtbq|t Wiktionnaire
mad|Madurese|Madhurâ|w
nap|Neapolitan|Napulitano|ws
tay|Tayal||w|w Wikipidia
ba|Bashkir|башҡортса|wb|w Википедия|b Викидәреслек
ceb|Cebuano||w
mrj|Western Mari|кырык мары|w|w Википеди
tw|Twi||wt
gag|Gagauz||w|w Vikipediya
simple|Simple English||wtbq
stq|Saterland Frisian|Seeltersk|w
aa|Afar|Qafár af|wtb
ast|Asturian|asturianu|wtbq|t Wikcionariu
kl|Kalaallisut|kalaallisut|wt
zh-yue|Cantonese|粵語|w|w 維基百科
ar|Arabic|<العربية|wtbnqsv|w ويكيبيديا|t ويكاموس|b ويكي الكتب|n ويكي الأخبار|q ويكي الاقتباس|s ويكي مصدر|v ويكي الجامعة
dty|Doteli|डोटेली|w|w विकिपिडिया
guw|Gun|gungbe|wtnq|n Wikilinlin
lrc|Northern Luri|<لۊری شومالی|w|w ڤیکیپئدیا
ti|Tigrinya|ትግርኛ|wt|w ዊኪፔዲያ|t ዊኪ-መዝገበ-ቃላት
tt|Tatar|татарча / tatarça|wtbq
bs|Bosnian|bosanski|wtbnqs|t Wikirječnik|b Wikiknjige|n Wikivijesti|q Wikicitati|s Wikizvor
lij|Ligurian|Ligure|ws|s Wikivivàgna
min|Minangkabau||wt|t Wikikato
olo|Livvi-Karelian|livvinkarjala|w|w Wikipedii
si|Sinhala|සිංහල|wtb|w විකිපීඩියා
ami|Amis|Pangcah|w
es|Spanish|español|wtbnqsvy|t Wikcionario|b Wikilibros|n Wikinoticias|v Wikiversidad|y Wikiviajes
pag|Pangasinan||w
pt|Portuguese|português|wtbnqsvy|w Wikipédia|t Wikcionário|b Wikilivros|n Wikinotícias|v Wikiversidade
gpe|Ghanaian Pidgin||w
guc|Wayuu|wayuunaiki|w|w Wikipeetia
hu|Hungarian|magyar|wtbnqs|w Wikipédia|t Wikiszótár|b Wikikönyvek|n Wikihírek|q Wikidézet|s Wikiforrás
li|Limburgish|Limburgs|wtbnqs|b Wikibeuk|n Wikinuujs|s Wikibrónne
pwn|Paiwan|pinayuanan|w
ta|Tamil|தமிழ்|wtbnqs|w விக்கிப்பீடியா|t விக்சனரி|b விக்கிநூல்கள்|n விக்கிசெய்தி|q விக்கிமேற்கோள்|s விக்கிமூலம்
wa|Walloon|walon|wtbs|t Wiccionaire
bh|Bhojpuri|भोजपुरी|wt|w विकिपीडिया
cu|Church Slavic|словѣньскъ / ⰔⰎⰑⰂⰡⰐⰠⰔⰍⰟ|w|w Википєдїꙗ
lmo|Lombard|lombard|wt
pms|Piedmontese|Piemontèis|ws
rmy|Vlax Romani|romani čhib|w|w Vikipidiya
sc|Sardinian|sardu|wt
ty|Tahitian|reo tahiti|w
ig|Igbo||wtq
ng|Ndonga|Oshiwambo|w
roa-rup|Aromanian|armãneashti|wt
uz|Uzbek|oʻzbekcha / ўзбекча|wtbq|w Vikipediya|t Vikilug‘at|b Vikikitob|q Vikiiqtibos
awa|Awadhi|अवधी|w|w विकिपीडिया
azb|South Azerbaijani|<تۆرکجه|w|w ویکی‌پدیا
fiu-vro|võro||w
gv|Manx|Gaelg|wt
ro|Romanian|română|wtbnqsy|t Wikționar|b Wikimanuale|n Wikiștiri|q Wikicitat
sa|Sanskrit|संस्कृतम्|wtbqs|w विकिपीडिया|t विकिशब्दकोशः|b विकिपुस्तकानि|q विकिसूक्तिः|s विकिस्रोतः
sg|Sango|Sängö|wt
ve|Venda|Tshivenda|w
wo|Wolof||wtq
cy|Welsh|Cymraeg|wtbqs|w Wicipedia|t Wiciadur|b Wicilyfrau|s Wicidestun
dz|Dzongkha|ཇོང་ཁ|wt
ht|Haitian Creole|Kreyòl ayisyen|ws|w Wikipedya|s Wikisòrs
be|Belarusian|беларуская|wtbqs|w Вікіпедыя|t Вікіслоўнік|b Вікікнігі|s Вікікрыніцы
ckb|Central Kurdish|<کوردی|wt|w ویکیپیدیا|t ویکیفەرھەنگ
eml|Emiliano-Romagnolo|emiliàn e rumagnòl|w
kr|Kanuri|kanuri|wq
th|Thai|ไทย|wtbnqs|w วิกิพีเดีย|b วิกิตำรา|q วิกิคำคม|s วิกิซอร์ซ
udm|Udmurt|удмурт|w|w Википедия
el|Greek|Ελληνικά|wtbnqsvy|w Βικιπαίδεια|t Βικιλεξικό|b Βικιβιβλία|n Βικινέα|q Βικιφθέγματα|s Βικιθήκη|v Βικιεπιστήμιο|y Βικιταξίδια
io|Ido||wt|w Wikipedio|t Wikivortaro
pih|Norfuk / Pitkern||w
sd|Sindhi|<سنڌي|wtn|w وڪيپيڊيا
sw|Swahili|Kiswahili|wtb
xal|Kalmyk|хальмг|w
hr|Croatian|hrvatski|wtbqs|w Wikipedija|q Wikicitat|s Wikizvor
na|Nauru|Dorerin Naoero|wtbq
shy|Shawiya|tacawit|t|t Wikasegzawal
sr|Serbian|српски / srpski|wtbnqs|w Википедија|t Викиречник|b Викикњиге|n Викиновости|q Викицитат|s Викизворник
ksh|Colognian|Ripoarisch|w
lad|Ladino||w|w Vikipedya
ms|Malay|Bahasa Melayu|wtb
tg|Tajik|тоҷикӣ|wtb|w Википедиа
bar|Bavarian|Boarisch|w
zh|Chinese|中文|wtbnqsvy|v 維基學院|y 维基导游
vep|Veps|vepsän kel’|w|w Vikipedii
fr|French|français|wtbnqsvy|w Wikipédia|t Wiktionnaire|b Wikilivres|v Wikiversité
kcg|Tyap||wt|t Swánga̱lyiatwuki
ny|Nyanja|Chi-Chewa|w
pam|Pampanga|Kapampangan|w
sah|Yakut|саха тыла|wqs|w Бикипиэдьийэ|q Биики_Домох|s Бикитиэкэ
shn|Shan|ၽႃႇသႃႇတႆး |wtby|w ဝီႇၶီႇၽီးတီးယႃး|t ဝိၵ်ႇသျိၼ်ႇၼရီႇ|b ဝီႇၶီႇပပ်ႉ|y ဝီႇၶီႇဝွႆးဢဵတ်ႇꩡ်
sq|Albanian|shqip|wtbnq|n Wikilajme
be-tarask|Belarusian (Taraškievica orthography)|беларуская (тарашкевіца)|
bi|Bislama||wtb
szy|Sakizaya||w|w Wikipitiya
tk|Turkmen|Türkmençe|wtbq|w Wikipediýa|t Wikisözlük
got|Gothic|𐌲𐌿𐍄𐌹𐍃𐌺|wb
hak|Hakka Chinese|客家語/Hak-kâ-ngî|w
mn|Mongolian|монгол|wtb|w Википедиа
tyv|Tuvinian|тыва дыл|w|w Википедия
om|Oromo|Oromoo|wt
alt|Southern Altai|алтай тил|w|w Википедия
bo|Tibetan|བོད་ཡིག|wtb
diq|Zazaki||wt|t Wikiqısebend
fy|Western Frisian|Frysk|wtb|w Wikipedy|t Wikiwurdboek
ie|Interlingue||wtb
lv|Latvian|latviešu|wtb|w Vikipēdija
mni|Manipuri|ꯃꯤꯇꯩ ꯂꯣꯟ|wt|w ꯋꯤꯀꯤꯄꯦꯗꯤꯌꯥ|t ꯋꯤꯛꯁꯟꯅꯔꯤ
os|Ossetic|ирон|w|w Википеди
ts|Tsonga|Xitsonga|wt
arz|Egyptian Arabic|<مصرى|w|w ويكيبيديا
ky|Kyrgyz|кыргызча|wtbq|w Википедия
ltg|Latgalian|latgaļu|w|w Vikipedeja
mai|Maithili|मैथिली|w|w विकिपिडिया
pnt|Pontic|Ποντιακά|w|w Βικιπαίδεια
fj|Fijian|Na Vosa Vakaviti|wt
iu|Inuktitut|ᐃᓄᒃᑎᑐᑦ / inuktitut|wt|w ᐅᐃᑭᐱᑎᐊ
pl|Polish|polski|wtbnqsy|t Wikisłownik|q Wikicytaty|s Wikiźródła|y Wikipodróże
ady|Adyghe|адыгабзэ|w|w Википедие
cr|Cree|Nēhiyawēwin / ᓀᐦᐃᔭᐍᐏᐣ|wtq
nl|Dutch|Nederlands|wtbnqsy|t WikiWoordenboek|n Wikinieuws
qu|Quechua|Runa Simi|wtbq
sl|Slovenian|slovenščina|wtbqsv|w Wikipedija|t Wikislovar|b Wikiknjige|q Wikinavedek|s Wikivir|v Wikiverza
bn|Bangla|বাংলা|wtbqsy|w উইকিপিডিয়া|t উইকিঅভিধান|b উইকিবই|q উইকিউক্তি|s উইকিসংকলন|y উইকিভ্রমণ
dag|Dagbani|dagbanli|w|w Dagbani Wikipedia
fo|Faroese|føroyskt|wts|s Wikiheimild
ho|Hiri Motu||w
kg|Kongo||w
rm|Romansh|rumantsch|wtb
tpi|Tok Pisin||wt
nds-nl|Low Saxon|Nedersaksies|w
ak|Akan||wtb
ban|Balinese|Basa Bali|ws|w Wikipédia
hy|Armenian|հայերեն|wtbqs|w Վիքիպեդիա|t Վիքիբառարան|b Վիքիգրքեր|q Վիքիքաղվածք|s Վիքիդարան
jbo|Lojban|la .lojban.|wt
km|Khmer|ភាសាខ្មែរ|wtb|w វិគីភីឌា
lbe|Lak|лакку|w|w Википедия
lfn|Lingua Franca Nova||w|w Vicipedia
bcl|Central Bikol|Bikol Central|wtq|t Wiksyunaryo
hyw|Western Armenian|Արեւմտահայերէն|w|w Ուիքիփետիա
kk|Kazakh|қазақша|wtbq|w Уикипедия|t Уикисөздік|b Уикикітап|q Уикидәйек
ang|Old English|Ænglisc|wtbqs|w Wikipǣdia|t Wikiwordbōc|s Wicifruma
atj|Atikamekw||w|w Wikipetcia
be-x-old|Belarusian (Taraškievica orthography)|беларуская (тарашкевіца)|w|w Вікіпэдыя
br|Breton|brezhoneg|wtqs|t Wikeriadur|q Wikiarroud|s Wikimammenn
gcr|Guianan Creole|kriyòl gwiyannen|w|w Wikipédja
hi|Hindi|हिन्दी|wtbqsvy|w विकिपीडिया|t विक्षनरी|b विकिपुस्तक|q विकिसूक्ति|s विकिस्रोत|v विकिविश्वविद्यालय|y विकियात्रा
ab|Abkhazian|аԥсшәа|wt|w Авикипедиа
bjn|Banjar||wt|w Wikipidia
hsb|Upper Sorbian|hornjoserbsce|wt|w Wikipedija|t Wikisłownik
mus|Muscogee|Mvskoke|w
myv|Erzya|эрзянь|w|w Википедиясь
wuu|Wu Chinese|吴语|w|w 维基百科
bg|Bulgarian|български|wtbnqs|w Уикипедия|t Уикиречник|b Уикикниги|n Уикиновини|q Уикицитат|s Уикиизточник
co|Corsican|corsu|wtbq
cs|Czech|čeština|wtbnqsv|w Wikipedie|t Wikislovník|b Wikiknihy|n Wikizprávy|q Wikicitáty|s Wikizdroje|v Wikiverzita
fur|Friulian|furlan|w|w Vichipedie
gan|Gan Chinese|贛語|w|w 維基百科
krc|Karachay-Balkar|къарачай-малкъар|w|w Википедия
lg|Ganda|Luganda|w
sco|Scots||w
mhr|Eastern Mari|олык марий|w|w Википедий
ace|Achinese|Acèh|w
af|Afrikaans||wtbq
csb|Kashubian|kaszëbsczi|wt
frr|Northern Frisian|Nordfriisk|w
gom|Goan Konkani|गोंयची कोंकणी / Gõychi Konknni|wt|w विकिपीडिया
ia|Interlingua|interlingua|wtb|t Wiktionario
mg|Malagasy||wtb
mt|Maltese|Malti|wt|w Wikipedija|t Wikizzjunarju
dsb|Lower Sorbian|dolnoserbski|w|w Wikipedija
koi|Komi-Permyak|перем коми|w|w Википедия
nso|Northern Sotho|Sesotho sa Leboa|w
st|Southern Sotho|Sesotho|wt
tum|Tumbuka|chiTumbuka|w
zu|Zulu|isiZulu|wtb
et|Estonian|eesti|wtbqs|w Vikipeedia|t Vikisõnastik|b Vikiõpikud|q Vikitsitaadid|s Vikitekstid
ga|Irish|Gaeilge|wtbq|w Vicipéid|t Vicífhoclóir|b Vicíleabhair|q Vicísliocht
glk|Gilaki|<گیلکی|w
sn|Shona|chiShona|wt
jv|Javanese|Jawa|wts|w Wikipédia|t Wikisastra|s Wikisumber
lez|Lezghian|лезги|w|w Википедия
map-bms|Basa Banyumasan||w
my|Burmese|မြန်မာဘာသာ|wtb|w ဝီကီပီးဒီးယား|t ဝစ်ရှင်နရီ
pa|Punjabi|ਪੰਜਾਬੀ|wtbs|w ਵਿਕੀਪੀਡੀਆ|s ਵਿਕੀਸਰੋਤ
sh|Serbo-Croatian|srpskohrvatski / српскохрватски|wt|w Wikipedija
gu|Gujarati|ગુજરાતી|wtbqs|w વિકિપીડિયા|t વિકિકોશ|q વિકિસૂક્તિ|s વિકિસ્રોત
kj|Kuanyama|Kwanyama|w
lo|Lao|ລາວ|wt|w ວິກິພີເດຍ
mh|Marshallese|Ebon|wt
nds|Low German|Plattdüütsch|wtbq
yo|Yoruba|Yorùbá|wtb
xmf|Mingrelian|მარგალური|w|w ვიკიპედია
avk|Kotava||w
ca|Catalan|català|wtbnqs|w Viquipèdia|t Viccionari|b Viquillibres|n Viquinotícies|q Viquidites|s Viquitexts
ii|Sichuan Yi|ꆇꉙ|w
mk|Macedonian|македонски|wtbs|w Википедија|t Викиречник
mr|Marathi|मराठी|wtbqs|w विकिपीडिया|b विकिबुक्स|s विकिस्रोत
te|Telugu|తెలుగు|wtbqs|w వికీపీడియా|t విక్షనరీ|q వికీవ్యాఖ్య|s వికీసోర్స్
to|Tongan|lea faka-Tonga|wt
an|Aragonese|aragonés|wt
bxr|Russia Buriat|буряад|w
ik|Inupiaq|Iñupiatun|wt
kbd|Kabardian|адыгэбзэ|wt|w Уикипедиэ|t Википсалъалъэ
sm|Samoan|Gagana Samoa|wt
arc|Aramaic|<ܐܪܡܝܐ|w|w ܘܝܩܝܦܕܝܐ
ilo|Iloko|Ilokano|w
is|Icelandic|íslenska|wtbqs|t Wikiorðabók|b Wikibækur|q Wikivitnun|s Wikiheimild
ko|Korean|한국어|wtbnqsv|w 위키백과|t 위키낱말사전|b 위키책|n 위키뉴스|q 위키인용집|s 위키문헌|v 위키배움터
ku|Kurdish|kurdî|wtbq|w Wîkîpediya|t Wîkîferheng
za|Zhuang|Vahcuengh|wtbq
mnw|Mon|ဘာသာ မန်|wt|w ဝဳကဳပဳဒဳယာ|t ဝိက်ရှေန်နရဳ
bat-smg|Samogitian|žemaitėška|w
da|Danish|dansk|wtbqs
gl|Galician|galego|wtbqs
gur|Frafra|farefare|w|w Wikipiidiya
hz|Herero|Otsiherero|w
ks|Kashmiri|<कॉशुर / کٲشُر|wtbq|w وِکیٖپیٖڈیا|t وِکیٖلۄغَتھ
mi|Māori||wtb
pcd|Picard||w
pfl|Palatine German|Pälzisch|w
bpy|Bishnupriya|বিষ্ণুপ্রিয়া মণিপুরী|w|w উইকিপিডিয়া
crh|Crimean Tatar|qırımtatarca|w|w Vikipediya
vec|Venetian|vèneto|wts|t Wikisionario
av|Avaric|авар|wt
chr|Cherokee|ᏣᎳᎩ|wt
rue|Rusyn|русиньскый|w|w Вікіпедія
tcy|Tulu|ತುಳು|w|w ವಿಕಿಪೀಡಿಯ
eu|Basque|euskara|wtbqs|s Wikiteka
gor|Gorontalo|Bahasa Hulontalo|wt|t Wikikamus
hif|Fiji Hindi||wt|t Sabdkosh
la|Latin|Latina|wtbqs|w Vicipaedia|t Victionarium|b Vicilibri|q Vicicitatio
mdf|Moksha|мокшень|w|w Википедиесь
pnb|Western Punjabi|<پنجابی|wt|w وکیپیڈیا|t وکشنری
szl|Silesian|ślůnski|w
anp|Angika|अंगिका|w|w विकिपीडिया
ce|Chechen|нохчийн|w|w Википеди
en|English||wtbnqsvy
kw|Cornish|kernowek|wtq
sk|Slovak|slovenčina|wtbqs|w Wikipédia|t Wikislovník|b Wikiknihy|q Wikicitáty|s Wikizdroje
so|Somali|Soomaaliga|wt
ss|Swati|SiSwati|wt
tl|Tagalog||wtbq
trv|Taroko|Seediq|w|w Wikipidiya
ka|Georgian|ქართული|wtbq|w ვიკიპედია|t ვიქსიკონი|b ვიკიწიგნები|q ვიკიციტატა
kab|Kabyle|Taqbaylit|w
pdc|Pennsylvania German|Deitsch|w
tet|Tetum|tetun|w
yue|Cantonese|粵語|t|t 維基辭典
zh-classical|Classical Chinese|文言|w|w 維基大典
"""
